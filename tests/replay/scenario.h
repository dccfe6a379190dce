#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kith/engine/options.h"
#include "tests/replay/planted.h"
#include "tests/replay/scheduler.h"

namespace kith::replay {

// What workers do together after a step.
enum class Operation : std::uint8_t { none, gather, average, mean, distance };

// A run, with everything that befalls it, from one seed.
struct Scenario {
  std::uint64_t seed = 0;
  int workers = 4;
  engine::EngineOptions options;
  std::vector<int> machines;          // empty: one
  std::vector<Operation> operations;  // after each step
  std::vector<Fault> faults;
  bool travels = false;
  bool slow = false;
  Bug bug = Bug::none;
};

struct DrawOptions {
  std::string algorithm = {};     // empty: the seed's
  bool nodes_are_models = false;  // EngineOptions::inside
  Bug bug = Bug::none;
};
Scenario draw(std::uint64_t seed, const DrawOptions& options = {});
std::string text_of(const Scenario& scenario);

// How it went.
struct Verdict {
  std::string problem;  // empty: all that must hold held
  std::uint64_t digest = 0;
  std::uint64_t points = 0;         // of all workers
  std::uint64_t views = 0;          // that began after the first
  std::uint64_t overtaken = 0;      // operations that could not be made up for
  std::uint64_t left_out = 0;       // workers that the others went on without
  double lost_mass = 0;             // push-sum's
  std::vector<std::string> deaths;  // what each was at
};
std::string encode(const Verdict& verdict);
Verdict decode_verdict(const std::string& text);

// Runs it in this process, which is good for nothing else afterwards: threads of the dead stay.
Verdict replay(const Scenario& scenario);

// Runs each in a process of its own, a few at a time, and shows how it went, in their order, until `look` is
// false. A crash is a problem too.
using Look = std::function<bool(const Scenario&, const Verdict&)>;
void replay_all(const std::vector<Scenario>& scenarios, const Look& look);

}  // namespace kith::replay

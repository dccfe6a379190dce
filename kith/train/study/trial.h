#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kith/engine/options.h"
#include "kith/train/study/problem.h"

namespace kith::train::study {

// One way to train, as a study of methods compares them.
struct Entry {
  std::string name;  // "choco, sign"
  std::string algorithm;
  std::string optimizer;  // sgd or adam
  std::string topology;
  std::string codec = {};
  std::string trigger = {};
  optim::MethodOptions method = {};
  std::optional<DType> wire = {};
};

// All methods on a topology; those that need a directed one are on exp-directed, diloco on complete, noloco
// on matching.
std::vector<Entry> all_entries(const std::string& topology);

// InputError naming `place` for a name that is not among `entries`.
std::vector<Entry> named_entries(const std::vector<Entry>& entries, const std::vector<std::string>& names,
                                 const std::string& place);

// What a network would take for what is exchanged: every worker has a link of its own.
struct NetworkModel {
  double bytes_per_s = 125e6;
  double latency_s = 100e-6;
  double compute_s = 0.01;  // forward and backward

  // A step with `messages` one after the other, of `bytes` together. `overlap`: share of the computing that
  // they may hide behind.
  double step_s(int messages, double bytes, double overlap) const;
};

struct TrialOptions {
  int workers = 16;
  std::int64_t steps = 1000;
  std::int64_t score_every = 100;  // steps; also at the end
  double lr = 0.1;                 // falls linearly to a hundredth
  NetworkModel network = {};
};

// How far a run has come after a number of steps.
struct TrialPoint {
  std::int64_t steps = 0;
  double bytes = 0;  // received by a worker, on average
  double modelled_s = 0;
  Score score;          // of the mean model
  double distance = 0;  // consensus distance
};

struct Trial {
  std::vector<TrialPoint> points;  // ascending, step 0 first
  bool diverged = false;           // the loss is no number, or greater than ten times the first
  const TrialPoint& last() const { return points.back(); }
};

// Trains by the entry, each worker a thread. Bytes are those of the messages as read; of groups of more than
// two (all-reduce, complete) what a reduce-scatter and an all-gather move, 2 (g - 1) / g vectors.
Trial run_trial(const Problem& problem, const Entry& entry, const TrialOptions& options);

}  // namespace kith::train::study

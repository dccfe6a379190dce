#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kith/observe/run_reader.h"

namespace kith::observe {

// running     it has written lately
// silent      it has not, and nobody has said why
// lost        its neighbours have found it gone
// the others  as it says itself
enum class Status { running, silent, lost, finished, interrupted, terminated, left, failed };
// What it computes is part of what all do: it is neither lost nor has it left.
inline bool counts(Status status) {
  return status != Status::lost && status != Status::left;
}
std::string_view name_of(Status status);

// `now`: Unix time of this machine. A worker is silent after ten seconds without a line, or ten of its
// iterations where they are longer.
Status status_of(const RunReader& run, int worker, double now);

// Nobody runs any more.
bool over(const RunReader& run, double now);

// Of a worker's last steps.
struct Recent {
  double steps = 0;
  double seconds = 0;  // an iteration
  double waited = 0;   // of it: for neighbours, while the step stood still
  double units_per_second = 0;
  double own() const { return seconds - waited; }
};
Recent recent_of(const WorkerState& worker);

enum class Span { recent, whole };
// For each worker it has waited for: the share of its time.
std::map<int, double> waits_of(const WorkerState& worker, Span span);

// The worker that takes longest for its own part of a step.
struct Slowest {
  int worker = 0;
  double own = 0;     // seconds of a step that it does not wait
  double median = 0;  // everybody's
  double cost = 0;    // seconds of a step that the others wait for it, on average
  double share = 0;   // of their time
  std::string sentence() const;
};
// Among those that run; nothing for fewer than two, or where nobody has done a step.
std::optional<Slowest> slowest(const RunReader& run, double now);

// Who read whom in a round.
struct Edge {
  int reader = 0, writer = 0;
  double waited = 0;
};
std::vector<Edge> round_at(const RunState& state, std::int64_t step);

}  // namespace kith::observe

#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kith/observe/curve.h"
#include "kith/observe/line.h"

namespace kith::observe {

// One worker, as its lines tell.
struct WorkerState {
  int id = 0;
  int starts = 0;               // more than 1: it went on with a run
  StartLine start;              // the last one
  std::optional<EndLine> end;   // since then
  std::deque<StepLine> recent;  // the last steps, oldest first
  double steps = 0, seconds = 0, waited = 0, held_up = 0, bytes_read = 0, bytes_published = 0;  // sums
  double late = 0, lost = 0;      // times that it missed somebody
  double last_time = 0;           // of its last line
  std::map<int, LinkPart> links;  // per peer, over all its starts

  std::int64_t step() const { return recent.empty() ? start.step : recent.back().step; }

  // For RunState: what `links` adds up from.
  std::map<int, LinkPart> links_before, links_now;
  double links_time = 0;                  // of the last such line
  std::map<int, double> read_per_second;  // bytes, between the last two such lines
};

// Something that happened at a moment.
struct RunEvent {
  double time = 0;
  std::int64_t step = 0;
  int worker = 0;
  std::string kind;  // "start", "end", "late", "lost", "members"
  std::string text;
};

// All that is known of a run: what its workers' lines add up to. Lines of one worker come in their order.
class RunState {
 public:
  void add(int worker, const Line& line);

  const std::map<int, WorkerState>& workers() const { return workers_; }
  const Curve& curve() const { return curve_; }
  const std::vector<EvalLine>& evaluations() const { return evaluations_; }
  const std::vector<MembersLine>& views() const { return views_; }  // by number, each once
  const std::vector<RunEvent>& events() const { return events_; }   // at most 1000, the last ones
  // The members of the last view; before there is one, everybody who has lines.
  std::vector<int> members() const;
  // The last step that every member has done that still runs.
  std::int64_t common_step() const;
  std::int64_t last_step() const;
  double last_time() const;
  // Somebody has found the worker gone, and it has written nothing since.
  bool lost(int worker) const;

 private:
  void take(WorkerState& worker, const StepLine& line);
  void take(WorkerState& worker, const EvalLine& line);
  void take(WorkerState& worker, const StartLine& line);
  void take(WorkerState& worker, const MembersLine& line);
  void take(WorkerState&, const LossLine&) {}
  void take(WorkerState& worker, const LinksLine& line);
  void take(WorkerState& worker, const EndLine& line);
  void note(RunEvent event);

  std::map<int, WorkerState> workers_;
  Curve curve_;
  std::vector<EvalLine> evaluations_;
  std::vector<MembersLine> views_;
  std::vector<RunEvent> events_;
  std::map<int, double> lost_at_;  // worker -> when somebody found it gone
};

}  // namespace kith::observe

#include "kith/observe/run_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kith/base/text.h"

namespace kith::observe {
namespace {

constexpr std::size_t kRecentSteps = 64;
constexpr std::size_t kMostEvents = 1000;

std::string list(const std::vector<int>& ids) {
  std::string text;
  for (const int id : ids)
    text += cat(text.empty() ? "" : ", ", id);
  return text;
}

}  // namespace

void RunState::note(RunEvent event) {
  // Workers tell of the same moments in files of their own.
  const auto later = std::ranges::upper_bound(events_, event.time, {}, &RunEvent::time);
  events_.insert(later, std::move(event));
  if (events_.size() > kMostEvents) events_.erase(events_.begin());
}

void RunState::add(int id, const Line& line) {
  WorkerState& worker = workers_[id];
  worker.id = id;
  std::visit(
      [&](const auto& one) {
        worker.last_time = std::max(worker.last_time, one.time);
        take(worker, one);
      },
      line);
}

void RunState::take(WorkerState& worker, const StepLine& line) {
  worker.recent.push_back(line);
  if (worker.recent.size() > kRecentSteps) worker.recent.pop_front();
  ++worker.steps;
  worker.seconds += line.seconds;
  worker.waited += line.waited;
  worker.held_up += line.held_up;
  worker.bytes_read += line.bytes_read;
  worker.bytes_published += line.bytes_published;
  worker.late += static_cast<double>(line.late.size());
  worker.lost += static_cast<double>(line.lost.size());
  curve_.add(line);
  if (!line.late.empty())
    note({line.time, line.step, worker.id, "late", cat("did not wait longer for ", list(line.late))});
  for (const int peer : line.lost) {
    const bool news = !lost_at_.contains(peer);
    lost_at_[peer] = std::max(lost_at_[peer], line.time);
    if (news) note({line.time, line.step, worker.id, "lost", cat("found worker ", peer, " gone")});
  }
}

void RunState::take(WorkerState&, const EvalLine& line) {
  // Of the averaged model: everybody's is the same.
  const auto place = std::ranges::lower_bound(evaluations_, line.step, {}, &EvalLine::step);
  if (place == evaluations_.end() || place->step != line.step) evaluations_.insert(place, line);
}

void RunState::take(WorkerState& worker, const StartLine& line) {
  worker.start = line;
  worker.end.reset();
  ++worker.starts;
  for (const auto& [peer, part] : worker.links_now)
    worker.links_before[peer] += part;
  worker.links_now.clear();
  lost_at_.erase(worker.id);
  note({line.time, line.step, worker.id, "start", worker.starts > 1 ? "goes on" : "begins"});
}

void RunState::take(WorkerState& worker, const MembersLine& line) {
  const auto place = std::ranges::lower_bound(views_, line.view, {}, &MembersLine::view);
  if (place != views_.end() && place->view == line.view) return;
  views_.insert(place, line);
  if (line.view > 0)
    note({line.time, line.step, worker.id, "members", cat("view ", line.view, ": ", list(line.members))});
}

void RunState::take(WorkerState& worker, const LinksLine& line) {
  const double passed = line.time - worker.links_time;
  worker.read_per_second.clear();
  for (const auto& [peer, part] : line.peers) {
    const auto before = worker.links_now.find(peer);
    const double read = part.read - (before == worker.links_now.end() ? 0 : before->second.read);
    if (worker.links_time > 0 && passed > 0) worker.read_per_second[peer] = read / passed;
  }
  worker.links_time = line.time;
  worker.links_now = line.peers;
  worker.links = worker.links_before;
  for (const auto& [peer, part] : line.peers)
    worker.links[peer] += part;
}

void RunState::take(WorkerState& worker, const EndLine& line) {
  worker.end = line;
  note({line.time, line.step, worker.id, "end",
        line.error.empty() ? line.ending : cat(line.ending, ": ", line.error)});
}

std::vector<int> RunState::members() const {
  if (!views_.empty()) return views_.back().members;
  std::vector<int> all;
  for (const auto& [id, worker] : workers_)
    all.push_back(id);
  return all;
}

std::int64_t RunState::last_step() const {
  std::int64_t last = 0;
  for (const auto& [id, worker] : workers_)
    last = std::max(last, worker.step());
  return last;
}

std::int64_t RunState::common_step() const {
  std::int64_t common = std::numeric_limits<std::int64_t>::max();
  for (const int id : members()) {
    const auto worker = workers_.find(id);
    if (worker != workers_.end() && !lost(id)) common = std::min(common, worker->second.step());
  }
  return common == std::numeric_limits<std::int64_t>::max() ? last_step() : common;
}

double RunState::last_time() const {
  double last = 0;
  for (const auto& [id, worker] : workers_)
    last = std::max(last, worker.last_time);
  return last;
}

bool RunState::lost(int id) const {
  const auto found = lost_at_.find(id);
  if (found == lost_at_.end()) return false;
  const auto worker = workers_.find(id);
  return worker == workers_.end() || worker->second.last_time <= found->second;
}

}  // namespace kith::observe

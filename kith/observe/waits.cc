#include "kith/observe/waits.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "kith/base/text.h"

namespace kith::observe {
namespace {

constexpr double kSilentSeconds = 10;
constexpr double kSilentSteps = 10;

std::string milliseconds(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g ms", 1e3 * seconds);
  return text.data();
}

}  // namespace

std::string_view name_of(Status status) {
  constexpr std::array<std::string_view, 8> kNames{"running",     "silent",     "lost", "finished",
                                                   "interrupted", "terminated", "left", "failed"};
  return kNames.at(static_cast<std::size_t>(status));
}

Status status_of(const RunReader& run, int id, double now) {
  const auto found = run.state().workers().find(id);
  if (found == run.state().workers().end()) return Status::silent;
  const WorkerState& worker = found->second;
  if (worker.end) {
    if (worker.end->ending == "finished") return Status::finished;
    if (worker.end->ending == "interrupted") return Status::interrupted;
    if (worker.end->ending == "terminated") return Status::terminated;
    if (worker.end->ending == "left") return Status::left;
    return Status::failed;
  }
  if (run.state().lost(id)) return Status::lost;
  const double limit = std::max(kSilentSeconds, kSilentSteps * recent_of(worker).seconds);
  return now - run.written(id) > limit ? Status::silent : Status::running;
}

bool over(const RunReader& run, double now) {
  const auto& workers = run.state().workers();
  const auto ended = [&](const auto& entry) { return entry.second.end.has_value(); };
  const auto running = [&](const auto& entry) { return status_of(run, entry.first, now) == Status::running; };
  return std::ranges::any_of(workers, ended) && std::ranges::none_of(workers, running);
}

Recent recent_of(const WorkerState& worker) {
  Recent recent;
  double units = 0;
  for (const StepLine& line : worker.recent) {
    ++recent.steps;
    recent.seconds += line.seconds;
    recent.waited += line.waited;
    units += line.units_per_second * line.seconds;
  }
  if (recent.seconds > 0) recent.units_per_second = units / recent.seconds;
  if (recent.steps > 0) {
    recent.seconds /= recent.steps;
    recent.waited /= recent.steps;
  }
  return recent;
}

std::map<int, double> waits_of(const WorkerState& worker, Span span) {
  std::map<int, double> waits;
  double seconds = worker.seconds;
  if (span == Span::whole) {
    for (const auto& [peer, part] : worker.links)
      waits[peer] = part.waited;
  } else {
    seconds = 0;
    for (const StepLine& line : worker.recent) {
      seconds += line.seconds;
      for (const auto& [peer, part] : line.peers)
        waits[peer] += part.waited;
    }
  }
  for (auto& [peer, wait] : waits)
    wait = seconds > 0 ? wait / seconds : 0;
  return waits;
}

std::optional<Slowest> slowest(const RunReader& run, double now) {
  std::map<int, Recent> all;
  for (const auto& [id, worker] : run.state().workers()) {
    const Recent recent = recent_of(worker);
    if (recent.steps > 0 && status_of(run, id, now) != Status::lost) all[id] = recent;
  }
  if (all.size() < 2) return std::nullopt;
  std::vector<double> own;
  for (const auto& [id, recent] : all)
    own.push_back(recent.own());
  const auto last = std::ranges::max_element(all, {}, [](const auto& entry) { return entry.second.own(); });
  std::ranges::sort(own);
  Slowest result{.worker = last->first, .own = last->second.own(), .median = own[(own.size() - 1) / 2]};
  double seconds = 0;
  for (const auto& [id, recent] : all) {
    if (id == result.worker) continue;
    const auto waits = waits_of(run.state().workers().at(id), Span::recent);
    const auto wait = waits.find(result.worker);
    if (wait != waits.end()) result.cost += wait->second * recent.seconds;
    seconds += recent.seconds;
  }
  result.share = seconds > 0 ? result.cost / seconds : 0;
  result.cost /= static_cast<double>(all.size() - 1);
  return result;
}

std::string Slowest::sentence() const {
  std::array<char, 32> percent{};
  std::snprintf(percent.data(), percent.size(), "%.1f%%", 100 * share);
  return cat("Worker ", worker, " is the slowest: ", milliseconds(own),
             " of its own in a step, where the median worker takes ", milliseconds(median),
             ". The others wait for it ", milliseconds(cost), " a step, ", percent.data(), " of their time.");
}

std::vector<Edge> round_at(const RunState& state, std::int64_t step) {
  std::vector<Edge> edges;
  for (const auto& [id, worker] : state.workers()) {
    const auto line = std::ranges::find(worker.recent, step, &StepLine::step);
    if (line == worker.recent.end()) continue;
    for (const auto& [peer, part] : line->peers)
      edges.push_back({id, peer, part.waited});
  }
  return edges;
}

}  // namespace kith::observe

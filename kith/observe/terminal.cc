#include "kith/observe/terminal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "kith/base/text.h"
#include "kith/observe/waits.h"

namespace kith::observe {
namespace {

constexpr std::size_t kMostWorkers = 16;
constexpr std::size_t kMostWaits = 8;
constexpr std::size_t kMostEvents = 5;

template <class... Args>
std::string format(const char* pattern, Args... args) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

// The run's loss in one line, low is good.
std::string sparkline(const std::vector<CurvePoint>& points, std::size_t width) {
  constexpr std::array<const char*, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<double> losses;
  for (const CurvePoint& p : points)
    if (p.losses > 0) losses.push_back(p.mean_loss());
  if (losses.size() < 2) return {};
  const auto [low, high] = std::ranges::minmax(losses);
  std::string text;
  const std::size_t columns = std::min(width, losses.size());
  for (std::size_t c = 0; c < columns; ++c) {
    const double share = high > low ? (losses[c * losses.size() / columns] - low) / (high - low) : 0;
    text += kBlocks.at(static_cast<std::size_t>(std::lround(share * 7)));
  }
  return text;
}

std::string head(const RunReader& run, double now) {
  const RunState& state = run.state();
  std::int64_t steps = 0;
  std::string unit = "unit";
  double rate = 0, seconds = 0, waited = 0;
  for (const auto& [id, worker] : state.workers()) {
    steps = std::max(steps, worker.start.steps);
    if (!worker.start.unit.empty()) unit = worker.start.unit;
    const Recent recent = recent_of(worker);
    if (counts(status_of(run, id, now))) rate += recent.units_per_second;
    seconds += recent.seconds;
    waited += recent.waited;
  }
  std::string text = cat(run.name(), over(run, now) ? " (over)" : "", "  step ", state.common_step(),
                         steps > 0 ? cat("/", steps) : "");
  const auto points = state.curve().points();
  if (!points.empty()) {
    text += format("  loss %.4f", points.back().mean_loss());
    if (points.back().consensus_told > 0)
      text += format("  consensus %.2e",
                     std::sqrt(points.back().squared_consensus / points.back().consensus_told));
  }
  text += format("  %.0f %ss/s", rate, unit.c_str());
  if (seconds > 0) text += format("  waiting %.1f%%", 100 * waited / seconds);
  text += cat("  view ", state.views().empty() ? 0 : state.views().back().view, ", ", state.members().size(),
              " members\n");
  return text;
}

std::string table(const RunReader& run, double now) {
  std::vector<const WorkerState*> workers;
  for (const auto& [id, worker] : run.state().workers())
    workers.push_back(&worker);
  const std::size_t all = workers.size();
  if (all > kMostWorkers) {
    std::ranges::sort(workers, std::greater<>(), [](const WorkerState* w) { return recent_of(*w).own(); });
    workers.resize(kMostWorkers);
  }
  std::string text = format("\n%7s %11s %8s %9s %9s %8s %9s %6s %6s\n", "worker", "status", "step", "own ms",
                            "waiting", "loss", "consensus", "late", "lost");
  for (const WorkerState* w : workers) {
    const Recent recent = recent_of(*w);
    const StepLine last = w->recent.empty() ? StepLine{} : w->recent.back();
    text +=
        format("%7d %11s %8lld %9.2f %8.1f%% %8.4f %9.2e %6.0f %6.0f\n", w->id,
               std::string(name_of(status_of(run, w->id, now))).c_str(), static_cast<long long>(w->step()),
               1e3 * recent.own(), recent.seconds > 0 ? 100 * recent.waited / recent.seconds : 0, last.loss,
               last.consensus, w->late, w->lost);
  }
  if (all > workers.size()) text += cat("  the slowest ", workers.size(), " of ", all, "\n");
  return text;
}

std::string longest_waits(const RunReader& run) {
  std::vector<Edge> waits;
  for (const auto& [id, worker] : run.state().workers()) {
    for (const auto& [peer, share] : waits_of(worker, Span::recent))
      if (share >= 0.001) waits.push_back({id, peer, share});
  }
  std::ranges::stable_sort(waits, std::greater<>(), &Edge::waited);
  waits.resize(std::min(waits.size(), kMostWaits));
  std::string text;
  for (const Edge& wait : waits)
    text += format("  worker %d waits for worker %d: %.1f%% of its time\n", wait.reader, wait.writer,
                   100 * wait.waited);
  return text;
}

}  // namespace

std::string terminal_text(const RunReader& run, double now, int columns) {
  const RunState& state = run.state();
  std::string text = head(run, now);
  text += sparkline(state.curve().points(), static_cast<std::size_t>(std::max(20, columns))) + "\n";
  if (!state.evaluations().empty()) {
    const EvalLine& e = state.evaluations().back();
    text += format("validation loss %.4f at step %lld, consensus distance %.2e\n", e.loss,
                   static_cast<long long>(e.step), e.consensus_distance);
  }
  text += table(run, now);
  const std::string waits = longest_waits(run);
  if (!waits.empty()) text += cat("\n", waits);
  if (const auto found = slowest(run, now)) text += cat("\n", found->sentence(), "\n");
  const auto& events = state.events();
  for (std::size_t k = events.size() - std::min(events.size(), kMostEvents); k < events.size(); ++k)
    text += cat("  step ", events[k].step, "  worker ", events[k].worker, " ", events[k].text, "\n");
  return text;
}

}  // namespace kith::observe

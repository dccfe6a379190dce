#include "kith/observe/slow_steps.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "kith/base/text.h"
#include "kith/observe/run_reader.h"

namespace kith::observe {
namespace {

constexpr std::int64_t kAround = 3;  // steps shown before and after
constexpr double kSlow = 2;          // times the median

struct Longest {
  double seconds = 0;
  int worker = 0;
  double time = 0;
};

std::string milliseconds(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f ms", 1e3 * seconds);
  return text.data();
}

std::string sentence_of(const SlowStep& slow, const Longest& longest, double median) {
  std::array<char, 32> times{};
  std::snprintf(times.data(), times.size(), "%.1f", longest.seconds / median);
  std::string text =
      cat("Step ", slow.step, " took worker ", longest.worker, " ", milliseconds(longest.seconds), ", ",
          times.data(), " times the median of ", milliseconds(median));
  for (const SlowRow& row : slow.rows) {
    if (row.worker != longest.worker || row.line.step != slow.step) continue;
    text += cat("; ", milliseconds(row.line.waited), " of it waiting");
    const auto most =
        std::ranges::max_element(row.line.peers, {}, [](const auto& peer) { return peer.second.waited; });
    if (most != row.line.peers.end() && most->second.waited > 0)
      text += cat(", longest for worker ", most->first);
  }
  return text + ".";
}

}  // namespace

SlowSteps slow_steps(const std::filesystem::path& folder, std::size_t most) {
  std::map<std::int64_t, Longest> longest;
  std::vector<float> all;
  for_each_line(folder, [&](int worker, const Line& line) {
    const auto* step = std::get_if<StepLine>(&line);
    if (step == nullptr) return;
    all.push_back(static_cast<float>(step->seconds));
    Longest& here = longest[step->step];
    if (step->seconds > here.seconds) here = {step->seconds, worker, step->time};
  });
  SlowSteps result;
  if (all.empty()) return result;
  std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
  result.median_seconds = all[all.size() / 2];
  std::vector<std::pair<std::int64_t, Longest>> order(longest.begin(), longest.end());
  std::ranges::stable_sort(order, std::greater<>(), [](const auto& entry) { return entry.second.seconds; });
  for (const auto& [step, one] : order) {
    const std::int64_t here = step;
    const bool apart = std::ranges::none_of(
        result.steps, [here](const SlowStep& s) { return std::abs(s.step - here) <= 2 * kAround; });
    if (result.steps.size() >= most || one.seconds <= kSlow * result.median_seconds) break;
    if (apart) result.steps.push_back({step, {}, {}});
  }
  if (result.steps.empty()) return result;
  for_each_line(folder, [&](int worker, const Line& line) {
    const auto* step = std::get_if<StepLine>(&line);
    if (step == nullptr) return;
    for (SlowStep& slow : result.steps) {
      // What lies far off, before a resume, would leave no room for the rest.
      const Longest& here = longest.at(slow.step);
      const double reach = (1 + kAround) * (here.seconds + result.median_seconds);
      if (std::abs(step->step - slow.step) <= kAround && std::abs(step->time - here.time) <= reach)
        slow.rows.push_back({worker, *step});
    }
  });
  for (SlowStep& slow : result.steps)
    slow.sentence = sentence_of(slow, longest.at(slow.step), result.median_seconds);
  return result;
}

}  // namespace kith::observe

#include "kith/train/study/report.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kith::train::study {
namespace {

// Losses of a cell by length and seed.
using Losses = std::map<std::int64_t, std::map<std::int64_t, double>>;

Losses losses_of(const Design& design, const Cell& cell, const std::optional<Choice>& choice,
                 const Results& results) {
  Losses losses;
  if (!choice) return losses;
  for (const Run& run : measuring_runs(design, cell, choice->values)) {
    const auto found = results.find(run.name);
    if (found != results.end() && !found->second.failed) losses[run.steps][run.seed] = found->second.loss;
  }
  return losses;
}

std::optional<Estimate> paired_difference(const Losses& losses, const Losses& baseline, std::int64_t steps) {
  std::vector<double> differences;
  const auto theirs = baseline.find(steps);
  if (theirs == baseline.end()) return {};
  for (const auto& [seed, loss] : losses.at(steps)) {
    if (const auto other = theirs->second.find(seed); other != theirs->second.end())
      differences.push_back(loss - other->second);
  }
  return differences.empty() ? std::nullopt : std::optional(estimate(differences));
}

double mean_over(const std::map<std::int64_t, double>& by_seed, const std::vector<std::int64_t>& seeds,
                 std::span<const std::size_t> which) {
  double sum = 0;
  for (const std::size_t i : which)
    sum += by_seed.at(seeds[i]);
  return sum / static_cast<double>(which.size());
}

// The logarithm is what is symmetric about 1; it is turned back at the end.
std::optional<StepsFactor> steps_factor(const Losses& losses, const Losses& baseline, std::int64_t steps) {
  const auto target = baseline.find(steps);
  if (target == baseline.end() || losses.empty()) return {};
  std::vector<std::int64_t> seeds;  // that have everything
  for (const auto& [seed, loss] : target->second) {
    const bool whole =
        std::ranges::all_of(losses, [key = seed](const auto& row) { return row.second.contains(key); });
    if (whole && std::isfinite(loss)) seeds.push_back(seed);
  }
  bool outside = false;
  const auto log_factor = [&](std::span<const std::size_t> which) -> std::optional<double> {
    std::vector<LengthLoss> lengths;
    for (const auto& [length, by_seed] : losses)
      lengths.push_back({static_cast<double>(length), mean_over(by_seed, seeds, which)});
    const auto crossing = steps_to_loss(lengths, mean_over(target->second, seeds, which));
    if (!crossing) return {};
    if (which.size() == seeds.size()) outside = crossing->outside;
    return std::log(crossing->steps / static_cast<double>(steps));
  };
  const auto spread = jackknife(seeds.size(), log_factor);
  if (!spread) return {};
  return StepsFactor{.factor = {.mean = std::exp(spread->mean),
                                .low = std::exp(spread->low),
                                .high = std::exp(spread->high),
                                .count = spread->count},
                     .outside = outside};
}

}  // namespace

Report report_on(const Design& design, const std::vector<Cell>& cells, const Results& results) {
  Report report{.baseline = design.baseline,
                .steps = design.steps,
                .runs_done = 0,
                .runs_failed = 0,
                .runs = total_runs(design, cells, results),
                .tuned_on_its_seeds = false,
                .cells = {}};
  for (const auto& [name, result] : results)
    ++(result.failed ? report.runs_failed : report.runs_done);
  for (const Cell& cell : cells) {
    CellReport& row = report.cells.emplace_back(
        CellReport{cell, choice_of(design, cell, results), tried(design, cell, results), {}, {}});
    const bool shared = std::ranges::any_of(design.tuning_seeds, [&](std::int64_t seed) {
      return std::ranges::find(design.seeds, seed) != design.seeds.end();
    });
    if (!row.tuning.empty() && shared) report.tuned_on_its_seeds = true;
    const Losses losses = losses_of(design, cell, row.choice, results);
    const Cell* const other = baseline_of(design, cells, cell);
    const Losses baseline =
        other ? losses_of(design, *other, choice_of(design, *other, results), results) : Losses();
    for (const auto& [steps, by_seed] : losses) {
      std::vector<double> values;
      for (const auto& [seed, loss] : by_seed)
        values.push_back(loss);
      row.lengths.push_back({steps, estimate(values), paired_difference(losses, baseline, steps)});
    }
    row.factor = steps_factor(losses, baseline, design.steps);
  }
  return report;
}

}  // namespace kith::train::study

#include "kith/train/study/results.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "kith/base/error.h"
#include "kith/train/run/summary.h"

namespace kith::train::study {
namespace {

std::optional<double> number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' ? std::optional(value) : std::nullopt;
}

// Whether a value is the smallest or largest number of its axis; a single one was not looked for.
bool is_at_edge(const Axis& axis, const std::string& value) {
  if (axis.values.size() < 2) return false;
  std::vector<double> numbers;
  for (const std::string& text : axis.values) {
    const auto parsed = number(text);
    if (!parsed) return false;
    numbers.push_back(*parsed);
  }
  const auto [low, high] = std::ranges::minmax(numbers);
  const double chosen = *number(value);
  return chosen == low || chosen == high;
}

// Whether it is whole is for `--resume` to see.
bool has_checkpoint(const std::filesystem::path& folder) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "checkpoints", none))
    if (entry.path().filename().string().starts_with("ckpt-")) return true;
  return false;
}

}  // namespace

Left left_of(const std::filesystem::path& folder) {
  try {
    if (read_summary(folder / "summary.json").ending == Ending::finished) return Left::all;
  } catch (const InputError&) {
    // none yet, or half of one
  }
  return std::filesystem::exists(folder / "config.toml") && has_checkpoint(folder) ? Left::part
                                                                                   : Left::nothing;
}

Result read_result(const std::filesystem::path& folder) {
  const Summary summary = read_summary(folder / "summary.json");
  return {.failed = false,
          .loss = summary.validation_loss,
          .accuracy = summary.validation_accuracy,
          .consensus_distance = summary.consensus_distance,
          .seconds = summary.seconds};
}

std::vector<Tried> tried(const Design& design, const Cell& cell, const Results& results) {
  std::vector<Tried> points;
  for (const Run& run : tuning_runs(design, cell)) {
    if (points.empty() || points.back().values != run.choice) points.push_back({run.choice, 0, 0});
    const auto found = results.find(run.name);
    if (found == results.end()) continue;
    const Result& result = found->second;
    const bool bad = result.failed || !std::isfinite(result.loss);
    points.back().mean_loss += bad ? std::numeric_limits<double>::infinity() : result.loss;
    ++points.back().runs;
  }
  for (Tried& point : points)
    if (point.runs > 0) point.mean_loss /= static_cast<double>(point.runs);
  return points;
}

std::optional<Choice> choice_of(const Design& design, const Cell& cell, const Results& results) {
  const std::vector<Tried> points = tried(design, cell, results);
  if (points.empty()) return Choice{.values = cell.first_choice(), .at_edge = {}};
  const auto whole = [&](const Tried& point) { return point.runs == design.tuning_seeds.size(); };
  if (!std::ranges::all_of(points, whole)) return {};
  const auto best = std::ranges::min_element(points, {}, &Tried::mean_loss);
  if (!std::isfinite(best->mean_loss)) return {};
  Choice choice{.values = best->values, .at_edge = {}};
  for (std::size_t i = 0; i < cell.tuned.size(); ++i) {
    if (is_at_edge(cell.tuned[i], best->values[i].value)) choice.at_edge.push_back(cell.tuned[i].key);
  }
  return choice;
}

std::vector<Run> wanted_runs(const Design& design, const std::vector<Cell>& cells, const Results& results) {
  std::vector<Run> wanted;
  std::set<std::string> names;
  const auto add = [&](std::vector<Run> runs) {
    for (Run& run : runs)
      if (names.insert(run.name).second) wanted.push_back(std::move(run));
  };
  for (const Cell& cell : cells)
    add(tuning_runs(design, cell));
  for (const Cell& cell : cells) {
    if (const auto choice = choice_of(design, cell, results))
      add(measuring_runs(design, cell, choice->values));
  }
  return wanted;
}

std::size_t total_runs(const Design& design, const std::vector<Cell>& cells, const Results& results) {
  std::set<std::string> names;
  for (const Cell& cell : cells) {
    const auto choice = choice_of(design, cell, results);
    std::vector<Run> runs = tuning_runs(design, cell);
    const std::vector<Run> measuring =
        measuring_runs(design, cell, choice ? choice->values : cell.first_choice());
    runs.insert(runs.end(), measuring.begin(), measuring.end());
    for (const Run& run : runs)
      names.insert(run.name);
  }
  return names.size();
}

const Run* next_run(const std::vector<Run>& wanted, const Results& results,
                    const std::set<std::string>& running) {
  const auto found = std::ranges::find_if(
      wanted, [&](const Run& run) { return !results.contains(run.name) && !running.contains(run.name); });
  return found != wanted.end() ? &*found : nullptr;
}

}  // namespace kith::train::study

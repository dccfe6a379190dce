#include "kith/train/study/grid.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "kith/base/sha256.h"
#include "kith/base/text.h"

namespace kith::train::study {
namespace {

// The points of a grid, the last axis fastest.
std::vector<std::vector<Value>> product(const std::vector<Axis>& axes) {
  std::vector<std::vector<Value>> points{{}};
  for (const Axis& axis : axes) {
    std::vector<std::vector<Value>> next;
    for (const auto& point : points) {
      for (const std::string& value : axis.values) {
        next.push_back(point);
        next.back().push_back({axis.key, value});
      }
    }
    points = std::move(next);
  }
  return points;
}

// The common settings with the method's own in their place.
std::vector<Axis> merged(const std::vector<Axis>& common, const std::vector<Axis>& own) {
  std::vector<Axis> all = common;
  for (const Axis& axis : own) {
    const auto shared = std::ranges::find(all, axis.key, &Axis::key);
    if (shared != all.end()) {
      *shared = axis;
    } else {
      all.push_back(axis);
    }
  }
  return all;
}

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string for_a_file(std::string text) {
  for (char& c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("._=,+-").find(c) != std::string_view::npos;
    if (!plain) c = '_';
  }
  return text;
}

std::string text_of(const std::vector<Value>& values, std::string_view separator) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : values)
    parts.push_back(cat(key, "=", value));
  return join(parts, separator);
}

Run make_run(const Design& design, const Cell& cell, const std::vector<Value>& choice, std::int64_t steps,
             std::int64_t seed) {
  Run run{.title = cell.title(),
          .name = {},
          .settings = cell.settings,
          .choice = choice,
          .steps = steps,
          .seed = seed};
  const auto place_of_tuned = [&](const std::string& key) {
    return std::ranges::find(cell.tuned, key, &Axis::key)->place;
  };
  for (const auto& [key, value] : choice)
    run.settings.push_back({cat(key, "=", value), place_of_tuned(key)});
  run.settings.push_back({cat(kSteps, "=", steps), design.file.string()});
  run.settings.push_back({cat("train.seed=", seed), design.file.string()});
  std::string identity = design.job.empty() ? "" : contents(design.job);
  for (const Setting& setting : run.settings)
    identity += "\n" + setting.text;
  const std::string chosen = text_of(choice, " ");
  run.title += cat(chosen.empty() ? "" : " ", chosen, ", ", steps, " steps, seed ", seed);
  std::vector<Value> told = cell.axes;
  told.insert(told.end(), choice.begin(), choice.end());
  told.push_back({"steps", std::to_string(steps)});
  told.push_back({"seed", std::to_string(seed)});
  // Long paths in values are the digest's business.
  run.name = for_a_file(cell.method) + "/" + for_a_file(text_of(told, ",")).substr(0, 150) + "-" +
             hex(sha256(identity)).substr(0, 8);
  return run;
}

}  // namespace

std::string Cell::title() const {
  return axes.empty() ? method : cat(method, " ", text_of(axes, " "));
}

std::string Cell::value_of(std::string_view key) const {
  for (auto setting = settings.rbegin(); setting != settings.rend(); ++setting) {
    if (setting->text.starts_with(cat(key, "="))) return setting->text.substr(key.size() + 1);
  }
  return {};
}

std::vector<Value> Cell::first_choice() const {
  return product(tuned).front();  // not of an axis without values: there is none
}

std::vector<Cell> cells_of(const Design& design) {
  std::vector<Cell> cells;
  for (const Method& method : design.methods) {
    std::vector<Axis> axes = merged(design.common, method.settings);
    Cell first{.method = method.name, .axes = {}, .settings = {}, .lengths = {}, .tuned = method.tuned};
    // What is tuned has its value from the search.
    std::erase_if(axes, [&](const Axis& axis) {
      return std::ranges::find(method.tuned, axis.key, &Axis::key) != method.tuned.end();
    });
    const auto lengths = std::ranges::find(axes, kSteps, &Axis::key);
    if (lengths != axes.end()) {
      for (const std::string& text : lengths->values) {
        std::int64_t steps = 0;
        std::from_chars(text.data(), text.data() + text.size(), steps);
        first.lengths.push_back(steps);
      }
      axes.erase(lengths);
    } else {
      first.lengths = {read_job({.file = design.job, .settings = {}}).job.train.steps};
    }
    std::ranges::sort(first.lengths);
    for (const auto& point : product(axes)) {
      Cell cell = first;
      for (std::size_t i = 0; i < axes.size(); ++i) {
        cell.settings.push_back({cat(point[i].key, "=", point[i].value), axes[i].place});
        if (axes[i].values.size() > 1) cell.axes.push_back(point[i]);
      }
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

std::vector<Run> tuning_runs(const Design& design, const Cell& cell) {
  std::vector<Run> runs;
  const auto points = product(cell.tuned);
  if (points.size() < 2) return runs;
  for (const auto& point : points) {
    for (const std::int64_t seed : design.tuning_seeds)
      runs.push_back(make_run(design, cell, point, design.tuning_steps, seed));
  }
  return runs;
}

std::vector<Run> measuring_runs(const Design& design, const Cell& cell, const std::vector<Value>& choice) {
  std::vector<Run> runs;
  for (const std::int64_t seed : design.seeds) {
    for (const std::int64_t steps : cell.lengths)
      runs.push_back(make_run(design, cell, choice, steps, seed));
  }
  return runs;
}

const Cell* baseline_of(const Design& design, const std::vector<Cell>& cells, const Cell& cell) {
  for (const Cell& candidate : cells) {
    if (candidate.method != design.baseline) continue;
    const bool same_point = std::ranges::all_of(design.common, [&](const Axis& axis) {
      return axis.key == kSteps || axis.values.size() < 2 ||
             candidate.value_of(axis.key) == cell.value_of(axis.key);
    });
    if (same_point) return cell.method == design.baseline ? nullptr : &candidate;
  }
  return nullptr;
}

}  // namespace kith::train::study

#include "kith/train/study/pictures.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "kith/base/text.h"
#include "kith/train/study/chart.h"

namespace kith::train::study {
namespace {

void set_ticks(Chart& chart) {
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points)
      if (std::ranges::find(chart.ticks, point.x) == chart.ticks.end()) chart.ticks.push_back(point.x);
  }
}

double baseline_level(const Report& report) {
  double level = NAN;
  int found = 0;
  for (const CellReport& row : report.cells) {
    if (row.cell.method != report.baseline) continue;
    for (const LengthRow& length : row.lengths) {
      if (length.steps == report.steps) level = length.loss.mean, ++found;
    }
  }
  return found == 1 ? level : NAN;  // several baselines have a level each
}

}  // namespace

std::string lengths_svg(const Report& report) {
  Chart chart{.title = "Loss at the end of runs of several lengths",
              .x_title = "steps",
              .y_title = "validation loss",
              .series = {},
              .ticks = {},
              .level = baseline_level(report)};
  for (const CellReport& row : report.cells) {
    ChartSeries& series = chart.series.emplace_back(ChartSeries{row.cell.title(), {}});
    for (const LengthRow& length : row.lengths)
      series.points.push_back(
          {static_cast<double>(length.steps), length.loss.mean, length.loss.low, length.loss.high});
  }
  set_ticks(chart);
  return chart_svg(chart);
}

std::string tuning_svg(const Report& report) {
  Chart chart{.title = "The search",
              .x_title = {},
              .y_title = "validation loss",
              .series = {},
              .ticks = {},
              .level = NAN};
  for (const CellReport& row : report.cells) {
    const auto numeric = std::ranges::find_if(row.cell.tuned, [](const Axis& axis) {
      return axis.values.size() > 1 && std::strtod(axis.values.front().c_str(), nullptr) > 0;
    });
    if (row.tuning.empty() || numeric == row.cell.tuned.end()) continue;
    chart.x_title = numeric->key;
    const auto index = static_cast<std::size_t>(numeric - row.cell.tuned.begin());
    std::map<double, ChartPoint> best;
    for (const Tried& point : row.tuning) {
      const double x = std::strtod(point.values[index].value.c_str(), nullptr);
      if (point.runs == 0 || (best.contains(x) && best[x].y <= point.mean_loss)) continue;
      const bool chosen = row.choice && row.choice->values == point.values;
      best[x] = {.x = x, .y = point.mean_loss, .low = NAN, .high = NAN, .marked = chosen};
    }
    ChartSeries& series = chart.series.emplace_back(ChartSeries{row.cell.title(), {}});
    for (const auto& [x, point] : best)
      series.points.push_back(point);
  }
  set_ticks(chart);
  return chart.series.empty() ? std::string() : chart_svg(chart);
}

}  // namespace kith::train::study

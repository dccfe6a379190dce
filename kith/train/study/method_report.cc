#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "kith/base/text.h"
#include "kith/train/study/chart.h"
#include "kith/train/study/method_study.h"

namespace kith::train::study {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class... Args>
std::string line(const char* pattern, Args... args) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

std::string with_interval(const char* pattern, const Estimate& estimate) {
  if (!std::isfinite(estimate.mean)) return "diverges";
  std::string text = line(pattern, estimate.mean);
  if (std::isfinite(estimate.high)) text += " +-" + line(pattern, estimate.high - estimate.mean);
  return text;
}

double x_of(const TrialPoint& point, Over over) {
  switch (over) {
    case Over::steps:
      return static_cast<double>(point.steps);
    case Over::bytes:
      return point.bytes / 1e6;
    case Over::time:
      return point.modelled_s;
  }
  return 0;
}

}  // namespace

std::string method_table(const std::vector<MethodRow>& rows, const std::string& reference) {
  const auto found = std::ranges::find(rows, reference, [](const MethodRow& row) { return row.entry.name; });
  const double full = found == rows.end() ? 0 : found->bytes_per_step();
  std::string text = line("%-20s %-13s %9s %-18s %-15s %11s %9s %9s %9s\n", "method", "topology", "rate",
                          "loss", "accuracy %", "bytes/step", "fewer", "modelled", "apart");
  for (const MethodRow& row : rows) {
    const auto accuracy = row.accuracy();
    const double bytes = row.bytes_per_step();
    const std::string rate = cat(row.lr, row.edge ? " EDGE" : "");
    text += line("%-20s %-13s %9s %-18s %-15s %11.0f %9s %8.1fs %9.3f\n", row.entry.name.c_str(),
                 row.entry.topology.c_str(), rate.c_str(), with_interval("%.4f", row.loss()).c_str(),
                 accuracy ? with_interval("%.2f", *accuracy).c_str() : "", bytes,
                 full > 0 && bytes > 0 ? line("%.1fx", full / bytes).c_str() : "", row.modelled_s(),
                 row.distance());
  }
  return text + cat("\n+-: 90% interval over seeds. bytes/step: what a worker receives. fewer: than ",
                    reference,
                    ".\nmodelled: seconds of all steps on the network that was given. apart: consensus "
                    "distance at the "
                    "end.\n");
}

std::string method_json(const MethodStudyOptions& options, const std::vector<MethodRow>& rows) {
  nlohmann::ordered_json json;
  json["problem"] = options.problem.name;
  json["workers"] = options.trial.workers;
  json["steps"] = options.trial.steps;
  json["batch"] = options.problem.batch;
  json["hidden"] = options.problem.hidden;
  json["split"] = options.problem.split == Split::mixed ? "mixed" : "by-label";
  json["seeds"] = options.seeds;
  json["network"] = {{"bytes_per_s", options.trial.network.bytes_per_s},
                     {"latency_s", options.trial.network.latency_s},
                     {"compute_s", options.trial.network.compute_s}};
  for (const MethodRow& row : rows) {
    nlohmann::ordered_json one{{"method", row.entry.name},
                               {"algorithm", row.entry.algorithm},
                               {"optimizer", row.entry.optimizer},
                               {"topology", row.entry.topology},
                               {"codec", row.entry.codec},
                               {"trigger", row.entry.trigger},
                               {"rate", row.lr},
                               {"rate_at_edge", row.edge},
                               {"loss", row.loss().mean},
                               {"bytes_per_step", row.bytes_per_step()}};
    if (const auto accuracy = row.accuracy()) one["accuracy_percent"] = accuracy->mean;
    for (const Trial& trial : row.trials) {
      nlohmann::ordered_json curve = nlohmann::json::array();
      for (const TrialPoint& point : trial.points) {
        curve.push_back({{"steps", point.steps},
                         {"bytes", point.bytes},
                         {"modelled_s", point.modelled_s},
                         {"loss", point.score.loss},
                         {"distance", point.distance}});
        if (point.score.accuracy) curve.back()["accuracy"] = *point.score.accuracy;
      }
      one["runs"].push_back(curve);
    }
    json["methods"].push_back(one);
  }
  return json.dump(1) + "\n";
}

std::string method_svg(const std::vector<MethodRow>& rows, Over over, const std::string& title) {
  Chart chart;
  chart.title = title;
  chart.y_title = "loss of the mean model";
  chart.x_title = over == Over::steps   ? "steps"
                  : over == Over::bytes ? "MB received by a worker"
                                        : "seconds, modelled";
  chart.level = kNone;
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const MethodRow& row : rows) {
    if (std::ranges::any_of(row.trials, &Trial::diverged)) continue;
    ChartSeries series{row.entry.name, {}};
    const std::size_t points = row.trials.front().points.size();
    for (std::size_t k = 1; k < points; ++k) {
      ChartPoint mean{0, 0, kNone, kNone, false};
      for (const Trial& trial : row.trials) {
        mean.x += x_of(trial.points[k], over) / static_cast<double>(row.trials.size());
        mean.y += trial.points[k].score.loss / static_cast<double>(row.trials.size());
      }
      if (!(mean.x > 0)) continue;  // nothing is sent
      low = std::min(low, mean.x);
      high = std::max(high, mean.x);
      series.points.push_back(mean);
    }
    if (!series.points.empty()) chart.series.push_back(series);
  }
  for (double tick = std::pow(10, std::floor(std::log10(low))); tick <= high; tick *= 10) {
    for (const double factor : {1.0, 2.0, 5.0})
      if (tick * factor >= low && tick * factor <= high) chart.ticks.push_back(tick * factor);
  }
  return chart_svg(chart);
}

}  // namespace kith::train::study

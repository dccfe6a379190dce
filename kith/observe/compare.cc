#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "kith/base/text.h"
#include "kith/observe/page.h"
#include "kith/observe/report.h"
#include "kith/observe/run_json.h"

namespace kith::observe {
namespace {

using Json = nlohmann::ordered_json;

std::string format(const char* pattern, double value) {
  if (!std::isfinite(value)) return "-";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

struct End {
  double steps = 0, loss = NAN, validation = NAN, consensus = NAN, seconds = 0, iteration = NAN,
         waiting = NAN, rate = NAN, bytes = 0;
};

End end_of(const RunReader& run) {
  const RunState& state = run.state();
  End end;
  double lines = 0, seconds = 0, waited = 0, units = 0, workers = 0;
  const auto points = state.curve().points();
  for (const CurvePoint& p : points)
    units += p.units;
  for (const auto& [id, worker] : state.workers()) {
    lines += worker.steps;
    seconds += worker.seconds;
    waited += worker.waited;
    end.bytes += worker.bytes_read;
    workers += worker.steps > 0 ? 1 : 0;
  }
  end.steps = static_cast<double>(state.last_step());
  if (!points.empty() && points.back().losses > 0) end.loss = points.back().mean_loss();
  if (!state.evaluations().empty()) {
    end.validation = state.evaluations().back().loss;
    end.consensus = state.evaluations().back().consensus_distance;
  }
  if (lines == 0 || seconds == 0) return end;
  end.seconds = seconds / workers;
  end.iteration = seconds / lines;
  end.waiting = waited / seconds;
  end.rate = units / seconds * workers;
  return end;
}

// Titles, then a row for each setting in which they differ.
std::vector<std::vector<std::string>> differences(const std::vector<const RunReader*>& runs) {
  std::vector<std::vector<std::string>> rows{{"setting"}};
  std::vector<std::map<std::string, std::string>> all;
  std::vector<std::string> keys;
  for (const RunReader* run : runs) {
    rows.front().push_back(run->name());
    auto& of_run = all.emplace_back();
    for (const auto& [key, value] : run->settings()) {
      of_run[key] = value;
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  for (const std::string& key : keys) {
    std::vector<std::string> row{key};
    for (auto& of_run : all)
      row.push_back(of_run.contains(key) ? of_run[key] : "-");
    if (std::set<std::string>(row.begin() + 1, row.end()).size() > 1) rows.push_back(row);
  }
  return rows;
}

}  // namespace

std::vector<std::vector<std::string>> compare_table(const std::vector<const RunReader*>& runs) {
  std::vector<std::vector<std::string>> rows{{""},
                                             {"steps"},
                                             {"training loss"},
                                             {"validation loss"},
                                             {"consensus distance"},
                                             {"training time"},
                                             {"iteration"},
                                             {"waiting"},
                                             {"units/s"},
                                             {"read by all"}};
  for (const RunReader* run : runs) {
    const End end = end_of(*run);
    const std::array<std::string, 10> column{run->name(),
                                             format("%.0f", end.steps),
                                             format("%.4f", end.loss),
                                             format("%.4f", end.validation),
                                             format("%.3g", end.consensus),
                                             format("%.4g s", end.seconds),
                                             format("%.4g ms", 1e3 * end.iteration),
                                             format("%.1f%%", 100 * end.waiting),
                                             format("%.4g", end.rate),
                                             human_bytes(end.bytes)};
    for (std::size_t k = 0; k < column.size(); ++k)
      rows[k].push_back(column[k]);
  }
  return rows;
}

std::string compare_html(const std::vector<const RunReader*>& runs, const std::string& title) {
  Json curves = Json::array();
  for (const RunReader* run : runs)
    curves.push_back(curves_json(*run));
  const Json doc{{"page", "compare"},
                 {"title", title},
                 {"runs", curves},
                 {"table", compare_table(runs)},
                 {"settings", differences(runs)}};
  return page(title, page_text(doc));
}

}  // namespace kith::observe

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "kith/base/text.h"
#include "kith/train/study/report.h"

namespace kith::train::study {
namespace {

using ReportJson = nlohmann::ordered_json;

std::string rounded(double value, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string with_half(const Estimate& estimate, int digits) {
  const std::string mean = rounded(estimate.mean, digits);
  return std::isfinite(estimate.high) ? cat(mean, " +-", rounded(estimate.high - estimate.mean, digits))
                                      : mean;
}

std::string factor_text(const StepsFactor& factor) {
  const Estimate& f = factor.factor;
  std::string text = cat(factor.outside ? "~" : "", rounded(f.mean, 3));
  if (std::isfinite(f.high)) text += cat(" (", rounded(f.low, 3), "..", rounded(f.high, 3), ")");
  return text;
}

std::string choice_text(const CellReport& row) {
  if (!row.choice) return row.tuning.empty() ? "" : "not tuned yet";
  std::vector<std::string> parts;
  for (const auto& [key, value] : row.choice->values) {
    const bool edge = std::ranges::find(row.choice->at_edge, key) != row.choice->at_edge.end();
    parts.push_back(cat(key, "=", value, edge ? " (EDGE)" : ""));
  }
  return join(parts, " ");
}

std::string signed_text(const Estimate& difference) {
  return cat(difference.mean >= 0 ? "+" : "", with_half(difference, 4));
}

using Line = std::array<std::string, 7>;

std::vector<Line> lines_of(const Report& report) {
  std::vector<Line> lines{{"method", "chosen", "steps", "seeds", "loss", cat("over ", report.baseline),
                           cat("steps factor at ", report.steps)}};
  for (const CellReport& row : report.cells) {
    Line line{row.cell.title(), choice_text(row)};
    if (row.factor) line[6] = factor_text(*row.factor);
    if (row.lengths.empty()) lines.push_back(line);
    for (const LengthRow& length : row.lengths) {
      line[2] = std::to_string(length.steps);
      line[3] = std::to_string(length.loss.count);
      line[4] = with_half(length.loss, 4);
      line[5] = length.over_baseline ? signed_text(*length.over_baseline) : "";
      lines.push_back(std::exchange(line, Line{}));
    }
  }
  return lines;
}

std::string notes_of(const Report& report) {
  std::string notes = "\n+- and (..): 90% intervals over seeds.";
  const auto any = [&](const auto& test) { return std::ranges::any_of(report.cells, test); };
  if (any([](const CellReport& row) { return row.choice && !row.choice->at_edge.empty(); }))
    notes += " EDGE: the best value is the first or last of its list; widen the list.";
  if (any([](const CellReport& row) { return row.factor && row.factor->outside; }))
    notes += " ~: outside the lengths that were run.";
  if (report.tuned_on_its_seeds) notes += " Values were chosen on the same seeds.";
  if (report.runs_failed > 0) notes += cat(" ", report.runs_failed, " runs failed.");
  if (report.runs_done + report.runs_failed < report.runs)
    notes += cat(" ", report.runs_done, " of ", report.runs, " runs are done.");
  return notes + "\n";
}

ReportJson json_of(const Estimate& estimate) {
  return {{"mean", estimate.mean}, {"low", estimate.low}, {"high", estimate.high}, {"seeds", estimate.count}};
}

ReportJson json_of(const std::vector<Value>& values) {
  ReportJson json = ReportJson::object();
  for (const auto& [key, value] : values)
    json[key] = value;
  return json;
}

ReportJson json_of(const CellReport& row) {
  ReportJson json{{"method", row.cell.method}, {"axes", json_of(row.cell.axes)}};
  if (row.choice) {
    json["chosen"] = json_of(row.choice->values);
    json["at_edge"] = row.choice->at_edge;
  }
  json["tried"] = ReportJson::array();
  for (const Tried& point : row.tuning) {
    if (point.runs > 0)
      json["tried"].push_back(
          {{"values", json_of(point.values)}, {"loss", point.mean_loss}, {"runs", point.runs}});
  }
  json["lengths"] = ReportJson::array();
  for (const LengthRow& length : row.lengths) {
    ReportJson entry{{"steps", length.steps}, {"loss", json_of(length.loss)}};
    if (length.over_baseline) entry["over_baseline"] = json_of(*length.over_baseline);
    json["lengths"].push_back(entry);
  }
  if (row.factor) {
    json["steps_factor"] = json_of(row.factor->factor);
    json["steps_factor"]["outside"] = row.factor->outside;
  }
  return json;
}

ReportJson json_of(const Run& run, const std::string& command, const Results& results) {
  ReportJson json{{"run", run.title},
                  {"folder", "runs/" + run.name},
                  {"steps", run.steps},
                  {"seed", run.seed},
                  {"command", command}};
  const auto found = results.find(run.name);
  json["state"] = found == results.end() ? "missing" : found->second.failed ? "failed" : "finished";
  if (found != results.end() && !found->second.failed) {
    json["loss"] = found->second.loss;
    json["accuracy"] = found->second.accuracy;
    json["consensus_distance"] = found->second.consensus_distance;
    json["seconds"] = found->second.seconds;
  }
  return json;
}

}  // namespace

std::string table_text(const Report& report) {
  const std::vector<Line> lines = lines_of(report);
  std::array<std::size_t, 7> widths{};
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], line[i].size());
  }
  std::string out;
  for (const Line& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (widths[i] > 0) text += line[i] + std::string(widths[i] - line[i].size() + 2, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out + notes_of(report);
}

std::string report_json(const Design& design, const Report& report, const std::vector<Run>& wanted,
                        const std::vector<std::string>& commands, const Results& results) {
  ReportJson json{{"study", design.file.string()},
                  {"baseline", design.baseline},
                  {"steps", design.steps},
                  {"seeds", design.seeds},
                  {"tuning", {{"steps", design.tuning_steps}, {"seeds", design.tuning_seeds}}},
                  {"runs_done", report.runs_done},
                  {"runs_failed", report.runs_failed},
                  {"runs_in_all", report.runs},
                  {"cells", ReportJson::array()},
                  {"runs", ReportJson::array()}};
  for (const CellReport& row : report.cells)
    json["cells"].push_back(json_of(row));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    json["runs"].push_back(json_of(wanted[i], commands[i], results));
  return json.dump(2) + "\n";
}

}  // namespace kith::train::study

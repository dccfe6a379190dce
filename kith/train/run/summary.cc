#include "kith/train/run/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/run/change_json.h"

namespace kith::train {
namespace {

using Json = nlohmann::ordered_json;

std::string format(const char* pattern, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

constexpr std::array<std::string_view, 4> kEndings{"finished", "interrupted", "terminated", "left"};

}  // namespace

std::string_view name_of(Ending ending) {
  return kEndings.at(static_cast<std::size_t>(ending));
}

namespace {

Ending parse_ending(const std::string& text) {
  const auto found = std::ranges::find(kEndings, text);
  return found == kEndings.end() ? Ending::interrupted : static_cast<Ending>(found - kEndings.begin());
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

struct Row {
  std::string title;
  std::string (*cell)(const Summary&);
};

const std::array kRows{
    Row{"steps done", [](const Summary& s) { return std::to_string(s.steps); }},
    Row{"validation loss", [](const Summary& s) { return format("%.4f", s.validation_loss); }},
    Row{"validation accuracy",
        [](const Summary& s) { return format("%.2f %%", 100 * s.validation_accuracy); }},
    Row{"time per iteration",
        [](const Summary& s) { return format("%.1f ms", 1e3 * s.seconds_per_iteration); }},
    Row{"time spent waiting", [](const Summary& s) { return format("%.1f %%", 100 * s.waiting_share); }},
    Row{"throughput", [](const Summary& s) { return format("%.0f ", s.units_per_second) + s.unit + "s/s"; }},
    Row{"bytes sent", [](const Summary& s) { return human_bytes(s.bytes_sent); }},
};

}  // namespace

std::string summary_json(const Job& job, const Summary& s) {
  Json json{{"ending", name_of(s.ending)},
            {"algorithm", job.algorithm.name},
            {"optimizer", job.optimizer.name},
            {"topology", job.topology.name},
            {"workers", job.world.workers},
            {"nodes", shape_of(job).text()},
            {"model", job.model.name},
            {"data", job.data.name},
            {"seed", job.train.seed},
            {"parameters", s.parameters},
            {"steps", s.steps},
            {"validation_loss", s.validation_loss},
            {"validation_accuracy", s.validation_accuracy},
            {"consensus_distance", s.consensus_distance},
            {"seconds", s.seconds},
            {"seconds_per_iteration", s.seconds_per_iteration},
            {"waiting_share", s.waiting_share},
            {"units_per_second", s.units_per_second},
            {"unit", s.unit},
            {"bytes_sent", s.bytes_sent},
            {"metrics_lost", s.metrics_lost}};
  json["views"] = s.views;
  json["lost"] = json_of(s.lost);
  json["joined"] = json_of(s.joined);
  json["left"] = json_of(s.left);
  json["missing_weight"] = s.missing_weight;
  json["missing_rounds"] = s.missing_rounds;
  return json.dump(2) + "\n";
}

Summary read_summary(const std::filesystem::path& file) {
  try {
    std::ifstream in(file);
    const Json json = Json::parse(in);
    // JSON has no NaN: a run that was stopped before its first evaluation has null there.
    const auto number = [&](const char* key) {
      return json.at(key).is_null() ? NAN : json.at(key).get<double>();
    };
    return {.ending = parse_ending(json.at("ending")),
            .steps = json.at("steps"),
            .parameters = json.at("parameters"),
            .validation_loss = number("validation_loss"),
            .validation_accuracy = number("validation_accuracy"),
            .consensus_distance = number("consensus_distance"),
            .seconds = number("seconds"),
            .seconds_per_iteration = number("seconds_per_iteration"),
            .waiting_share = number("waiting_share"),
            .units_per_second = number("units_per_second"),
            .unit = json.at("unit"),
            .bytes_sent = number("bytes_sent"),
            .views = json.value("views", 1),
            .lost = losses_in(json.value("lost", Json::array())),
            .joined = passages_in(json.value("joined", Json::array())),
            .left = passages_in(json.value("left", Json::array())),
            .missing_weight = json.value("missing_weight", 0.0),
            .missing_rounds = json.value("missing_rounds", std::int64_t{0}),
            .metrics_lost = json.value("metrics_lost", std::int64_t{0})};
  } catch (const nlohmann::json::exception& error) {
    throw InputError(cat("is not a summary: ", error.what()), file.string());
  }
}

std::string compare(const std::vector<SummaryColumn>& columns) {
  constexpr std::size_t kFirst = 22;
  std::string out(kFirst, ' ');
  std::vector<std::size_t> widths;
  for (const SummaryColumn& column : columns) {
    widths.push_back(std::max<std::size_t>(column.title.size(), 16) + 2);
    out += padded(column.title, widths.back());
  }
  for (const Row& row : kRows) {
    out += '\n';
    out += padded(row.title, kFirst);
    for (std::size_t i = 0; i < columns.size(); ++i)
      out += padded(row.cell(columns[i].summary), widths[i]);
  }
  return out + "\n";
}

}  // namespace kith::train

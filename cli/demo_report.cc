#include "cli/demo_report.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const DemoResult& result) {
  const train::Summary& s = result.summary;
  Json curve = Json::array();
  for (const CurvePoint& point : result.curve)
    curve.push_back({{"seconds", point.seconds}, {"validation_loss", point.loss}});
  return {{"title", result.title},
          {"steps", s.steps},
          {"validation_loss", s.validation_loss},
          {"validation_accuracy", s.validation_accuracy},
          {"seconds", s.seconds},
          {"seconds_per_iteration", s.seconds_per_iteration},
          {"waiting_share", s.waiting_share},
          {"units_per_second", s.units_per_second},
          {"unit", s.unit},
          {"bytes_sent", s.bytes_sent},
          {"curve", curve}};
}

DemoResult result_of(const std::string& name, const Json& json) {
  DemoResult result{.name = name, .title = json.at("title"), .summary = {}, .curve = {}};
  result.summary.steps = json.at("steps");
  result.summary.validation_loss = json.at("validation_loss");
  result.summary.validation_accuracy = json.at("validation_accuracy");
  result.summary.seconds = json.at("seconds");
  result.summary.seconds_per_iteration = json.at("seconds_per_iteration");
  result.summary.waiting_share = json.at("waiting_share");
  result.summary.units_per_second = json.at("units_per_second");
  result.summary.unit = json.at("unit");
  result.summary.bytes_sent = json.at("bytes_sent");
  for (const Json& point : json.at("curve"))
    result.curve.push_back({point.at("seconds"), point.at("validation_loss")});
  return result;
}

}  // namespace

DemoResult read_result(const std::string& name, const std::string& title,
                       const std::filesystem::path& folder) {
  const std::filesystem::path metrics = folder / "worker-0" / "metrics.jsonl";
  try {
    DemoResult result{
        .name = name, .title = title, .summary = train::read_summary(folder / "summary.json"), .curve = {}};
    std::ifstream lines(metrics);
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      if (json.at("kind") == "eval") result.curve.push_back({json.at("seconds"), json.at("loss")});
    }
    return result;
  } catch (const nlohmann::json::exception& error) {
    throw Error(cat("cannot be read: ", error.what()), metrics.string());
  }
}

std::string demo_json(const DemoLink& link, const std::vector<DemoResult>& results) {
  Json json{{"link",
             {{"rate", link.rate.empty() ? Json() : Json(link.rate)},
              {"bits_per_second", link.rate.empty() ? Json() : Json(link.bits_per_second)},
              {"hosts", link.hosts}}}};
  for (const DemoResult& result : results)
    json[result.name] = json_of(result);
  return json.dump(2) + "\n";
}

RecordedDemo read_demo(const std::filesystem::path& file) {
  try {
    std::ifstream in(file);
    const Json json = Json::parse(in);
    RecordedDemo demo{.link = {.rate = json.at("link").at("rate"),
                               .bits_per_second = json.at("link").at("bits_per_second"),
                               .hosts = json.at("link").at("hosts")},
                      .results = {}};
    for (const auto& [name, value] : json.items()) {
      if (name != "link") demo.results.push_back(result_of(name, value));
    }
    return demo;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(cat("is no demo.json: ", error.what()), file.string());
  }
}

}  // namespace kith::cli

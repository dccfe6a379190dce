#include "kith/observe/report.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "kith/base/text.h"
#include "kith/observe/faults.h"
#include "kith/observe/page.h"
#include "kith/observe/run_json.h"
#include "kith/observe/slow_steps.h"

namespace kith::observe {
namespace {

using Json = nlohmann::ordered_json;

Json slow_json(const std::vector<SlowStep>& steps) {
  Json all = Json::array();
  for (const SlowStep& slow : steps) {
    Json rows = Json::array();
    for (const SlowRow& row : slow.rows) {
      Json peers = Json::object();
      for (const auto& [peer, part] : row.line.peers)
        peers[std::to_string(peer)] = part.waited;
      rows.push_back({{"worker", row.worker},
                      {"step", row.line.step},
                      {"time", row.line.time},
                      {"seconds", row.line.seconds},
                      {"waited", row.line.waited},
                      {"peers", peers}});
    }
    all.push_back({{"step", slow.step}, {"sentence", slow.sentence}, {"rows", rows}});
  }
  return all;
}

Json faults_json(const std::vector<Fault>& faults) {
  Json all = Json::array();
  for (const Fault& fault : faults)
    all.push_back({{"time", fault.time}, {"step", fault.step}, {"text", fault.text}, {"cost", fault.cost}});
  return all;
}

// {"workers 0, 1", "host a, cpu x, ..."}, machine by machine.
Json environment_json(const RunState& state) {
  std::map<std::string, std::string> workers;
  for (const auto& [id, worker] : state.workers()) {
    std::string text;
    for (const auto& [name, value] : worker.start.environment) {
      if (name != "process") text += cat(text.empty() ? "" : "; ", name, " ", value);
    }
    std::string& ids = workers[cat(text, text.empty() ? "" : "; ", "backend ", worker.start.backend)];
    ids += cat(ids.empty() ? "worker " : ", ", id);
  }
  Json rows = Json::array();
  for (const auto& [text, ids] : workers)
    rows.push_back({ids, text});
  return rows;
}

std::string summary_sentence(const RunReader& run, double median) {
  const auto json = nlohmann::json::parse(run.summary_text(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return "The run has left no summary: it has not ended, or did not end well.";
  const auto number = [&](const char* key) {
    return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0;
  };
  std::array<char, 400> text{};
  std::snprintf(
      text.data(), text.size(),
      "%s after %.0f steps and %.4g s of training: validation loss %.4f, %.4g %ss/s, an iteration of %.4g ms "
      "(median %.4g ms), %.1f%% of it waiting, %s sent.",
      json.value("ending", "ended").c_str(), number("steps"), number("seconds"), number("validation_loss"),
      number("units_per_second"), json.value("unit", "unit").c_str(), 1e3 * number("seconds_per_iteration"),
      1e3 * median, 100 * number("waiting_share"), human_bytes(number("bytes_sent")).c_str());
  std::string sentence = text.data();
  if (!sentence.empty())
    sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
  return sentence;
}

}  // namespace

std::string report_html(const RunReader& run, const ReportOptions& options) {
  const SlowSteps slow = slow_steps(run.folder());
  Json plan{
      {"rows", Json::array()},
      {"note", "no profile was given: kith report RUN --profile PROFILE.json (kith profile makes one)"}};
  if (options.profile != nullptr)
    plan = {{"rows", plan_against_measured(run, *options.profile)},
            {"note", "predicted by kith plan's model from the profile " + options.profile->name}};
  const Json doc{{"page", "report"},
                 {"run", run_json(run, options.now)},
                 {"summary", summary_sentence(run, slow.median_seconds)},
                 {"slow", slow_json(slow.steps)},
                 {"faults", faults_json(faults_in(run.folder(), slow.median_seconds))},
                 {"plan", plan},
                 {"environment", environment_json(run.state())},
                 {"config", run.config_text()}};
  return page("kith report: " + run.name(), page_text(doc));
}

}  // namespace kith::observe

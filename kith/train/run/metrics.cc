#include "kith/train/run/metrics.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

using Json = nlohmann::ordered_json;

void add(MetricTotals& totals, const StepMetrics& m) {
  ++totals.steps;
  totals.seconds += m.seconds;
  totals.waited_seconds += m.waited_seconds;
  totals.bytes_read += static_cast<double>(m.bytes_read);
}

}  // namespace

std::string MetricsFile::kept_lines(const std::filesystem::path& file, std::int64_t steps_done) {
  std::string kept;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    // A killed worker may have left half a line.
    if (!json.is_object() || json.value("step", steps_done + 1) > steps_done) continue;
    kept += line + "\n";
    if (json.value("kind", "") == "step") {
      StepMetrics step;
      step.seconds = json.value("seconds", 0.0);
      step.waited_seconds = json.value("waited_seconds", 0.0);
      step.bytes_read = json.value("bytes_read", std::uint64_t{0});
      add(totals_, step);
    }
  }
  return kept;
}

MetricsFile::MetricsFile(const std::filesystem::path& file, std::int64_t steps_done) {
  const std::string kept = kept_lines(file, steps_done);
  std::error_code ignored;  // opening the file tells
  std::filesystem::create_directories(file.parent_path(), ignored);
  out_.open(file, std::ios::trunc);
  if (!out_) throw Error(cat("cannot be written: ", std::strerror(errno)), file.string());
  out_ << kept;
}

void MetricsFile::write(const StepMetrics& m) {
  add(totals_, m);
  Json json{{"kind", "step"}, {"step", m.step}, {"epoch", m.epoch}, {"loss", m.loss}, {"lr", m.lr}};
  if (m.gradient_norm) json["gradient_norm"] = *m.gradient_norm;
  if (m.skipped) json["skipped"] = true;
  json["seconds"] = m.seconds;
  json["waited_seconds"] = m.waited_seconds;
  json["bytes_read"] = m.bytes_read;
  json["bytes_published"] = m.bytes_published;
  out_ << json.dump() << std::endl;
}

void MetricsFile::write(const EvalMetrics& m) {
  const Json json{{"kind", "eval"},
                  {"step", m.step},
                  {"loss", m.loss},
                  {"accuracy", m.accuracy},
                  {"consensus_distance", m.consensus_distance}};
  out_ << json.dump() << std::endl;
}

}  // namespace kith::train

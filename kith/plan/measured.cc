#include "kith/plan/measured.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/plan/profile.h"

namespace kith::plan {
namespace {

using Json = nlohmann::ordered_json;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.5g", value);
  return text;
}

std::string milliseconds(double seconds) {
  return number(seconds * 1e3) + "ms";
}

Json times(const std::vector<double>& samples_s, const std::string& place, double factor = 1) {
  if (samples_s.empty()) throw InputError("no samples", place, "measure at least one step");
  Json samples = Json::array();
  for (double sample : samples_s)
    samples.push_back(milliseconds(factor * sample));
  return {{"samples", samples}};
}

// What makes the first worker's samples those of all of them, where these are taken for equal.
double to_everybody(const Measured& measured) {
  if (measured.compute_s.empty() || !slowness_of(measured).empty()) return 1;
  double all = 0;
  for (double seconds : measured.compute_s)
    all += seconds;
  return all / static_cast<double>(measured.compute_s.size()) / measured.compute_s.front();
}

Json link(const sim::Link& link) {
  return {{"latency", number(link.latency_s * 1e6) + "us"},
          {"bandwidth", number(link.bytes_per_s / 1e6) + "MB/s"}};
}

}  // namespace

std::vector<double> slowness_of(const Measured& measured) {
  if (measured.compute_s.empty()) return {};
  const auto [least, most] = std::ranges::minmax(measured.compute_s);
  if (!(least > 0)) throw InputError(cat("a worker that computes for ", least, " s"), "profile");
  if (most < kEvenWorkers * least) return {};
  std::vector<double> slowness;
  for (double seconds : measured.compute_s)
    slowness.push_back(seconds / measured.compute_s.front());
  return slowness;
}

std::string profile_json(const Measured& measured) {
  Json root{{"kith_profile", 1}, {"name", measured.name}, {"about", measured.about}};
  root["nodes"] = measured.nodes.text();
  const double factor = to_everybody(measured);
  root["forward"] = times(measured.forward_s, "forward", factor);
  for (std::size_t b = 0; b < measured.buckets.size(); ++b) {
    const MeasuredBucket& bucket = measured.buckets[b];
    root["buckets"].push_back({{"bytes", cat(static_cast<std::int64_t>(bucket.bytes))},
                               {"backward", times(bucket.backward_s, cat("bucket ", b), factor)},
                               {"step", times(bucket.step_s, cat("bucket ", b))}});
  }
  for (double slowness : slowness_of(measured))
    root["slowness"].push_back(std::stod(number(slowness)));
  root["batch"] = {{"cv", std::max(0.0, std::stod(number(measured.batch_cv)))}};
  if (measured.message_s_per_byte > 0)
    root["message_cost"] = milliseconds(measured.message_s_per_byte * kMessageCostBytes);
  root["links"] = Json::object();
  if (measured.inside) root["links"]["inside"] = link(*measured.inside);
  if (measured.between) root["links"]["between"] = link(*measured.between);
  if (measured.nic_bytes_per_s) root["links"]["nic"] = number(*measured.nic_bytes_per_s / 1e6) + "MB/s";
  if (measured.memory_bytes_per_s > 0)
    root["memory_bandwidth"] = number(measured.memory_bytes_per_s / 1e6) + "MB/s";
  return root.dump(1) + "\n";
}

}  // namespace kith::plan

#include "kith/plan/profile.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "kith/base/error.h"
#include "kith/base/input_text.h"
#include "kith/base/text.h"
#include "kith/graph/limits.h"
#include "kith/plan/json_field.h"
#include "kith/plan/units.h"

namespace kith::plan {
namespace {

using sim::Distribution;

constexpr int kVersion = 1;
constexpr std::size_t kMostBuckets = 10'000;

double seconds_of(const JsonField& field) {
  return parse_seconds(field.text(), field.place());
}

double rate_of(const JsonField& field) {
  const double rate = parse_bytes_per_s(field.text(), field.place());
  if (rate == 0) field.fail("a bandwidth of zero");
  return rate;
}

// "3ms" | {"mean": "3ms", "cv": 0.1, "shape": "lognormal"} | {"samples": ["3ms", ...]}
Distribution distribution_of(const JsonField& field) {
  if (!field.is_object()) return Distribution::constant(seconds_of(field));
  if (field.has("samples")) {
    field.allow_only({"samples"});
    const JsonField samples = field.at("samples");
    if (samples.size() == 0) samples.fail("no samples", "give at least one");
    std::vector<double> values;
    for (std::size_t i = 0; i < samples.size(); ++i)
      values.push_back(seconds_of(samples.at(i)));
    return Distribution::samples(std::move(values));
  }
  field.allow_only({"mean", "cv", "shape"});
  const double mean_s = seconds_of(field.at("mean"));
  const double cv = field.has("cv") ? field.at("cv").number_not_negative() : 0;
  const std::string shape = field.has("shape") ? field.at("shape").text() : "lognormal";
  if (shape == "lognormal") return Distribution::lognormal(mean_s, cv);
  if (shape == "normal") return Distribution::normal(mean_s, cv * mean_s);
  const std::vector<std::string> known{"lognormal", "normal"};
  field.at("shape").fail(cat("unknown shape '", shape, "'"), suggest(shape, known));
}

void read_buckets(const JsonField& field, sim::Job& job) {
  if (field.size() == 0) field.fail("no buckets", "a job has at least one");
  for (std::size_t i = 0; i < field.size(); ++i) {
    const JsonField bucket = field.at(i);
    bucket.allow_only({"bytes", "backward", "step", "repeat"});
    const JsonField bytes = bucket.at("bytes");
    const sim::Bucket one{static_cast<double>(parse_bytes(bytes.text(), bytes.place())),
                          distribution_of(bucket.at("backward")), distribution_of(bucket.at("step"))};
    if (one.bytes == 0) bytes.fail("an empty bucket");
    const int repeat = bucket.has("repeat") ? bucket.at("repeat").whole_number(1) : 1;
    const std::size_t count = job.buckets.size() + static_cast<std::size_t>(repeat);
    if (count > kMostBuckets) bucket.fail(cat(count, " buckets"), cat("at most ", kMostBuckets));
    job.buckets.insert(job.buckets.end(), static_cast<std::size_t>(repeat), one);
  }
}

sim::Link link_of(const JsonField& field) {
  field.allow_only({"latency", "bandwidth"});
  return {seconds_of(field.at("latency")), rate_of(field.at("bandwidth"))};
}

// Worlds of one node have no links between nodes, worlds of single workers none inside.
void read_links(const JsonField& links, Profile& profile) {
  links.allow_only({"inside", "between", "nic"});
  const bool single_workers = profile.nodes.workers() == profile.nodes.nodes();
  profile.between_known = profile.nodes.nodes() > 1 || links.has("between") || links.has("nic");
  profile.inside_known = !single_workers || links.has("inside");
  sim::Network& network = profile.network;
  if (profile.between_known) {
    network.between = link_of(links.at("between"));
    network.nic_bytes_per_s = rate_of(links.at("nic"));
  }
  if (profile.inside_known) {
    network.inside = link_of(links.at("inside"));
  } else {
    network.inside = profile.between_known ? network.between : sim::Link{1e-6, 1e9};
  }
  if (!profile.between_known) {
    network.between = network.inside;
    network.nic_bytes_per_s = network.inside.bytes_per_s;
  }
}

graph::Shape nodes_of(const JsonField& field) {
  if (field.value().is_string()) return graph::Shape::parse(field.text(), field.place());
  std::vector<int> nodes;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < field.size(); ++i) {
    nodes.push_back(field.at(i).whole_number(1));
    total += nodes.back();
  }
  if (nodes.empty()) field.fail("no nodes", "as \"4x8\" or [8, 8, 8, 8]");
  if (total > graph::kMostWorkers) field.fail(cat(total, " workers"), cat("at most ", graph::kMostWorkers));
  return graph::Shape(std::move(nodes));
}

void read_optional(const JsonField& root, Profile& profile) {
  const auto workers = static_cast<std::size_t>(profile.nodes.workers());
  if (root.has("name")) profile.name = root.at("name").text();
  if (root.has("about")) root.at("about").text();
  if (root.has("workers") && root.at("workers").whole_number(1) != profile.nodes.workers())
    root.at("workers").fail(
        cat(root.at("workers").whole_number(1), " workers do not fit nodes of ", profile.nodes.text()),
        cat("these nodes hold ", workers));
  if (root.has("batch")) {
    root.at("batch").allow_only({"cv"});
    profile.job.batch = Distribution::lognormal(1, root.at("batch").at("cv").number_not_negative());
  }
  if (root.has("slowness")) {
    const JsonField slowness = root.at("slowness");
    if (slowness.size() != workers) slowness.fail(cat(slowness.size(), " factors for ", workers, " workers"));
    for (std::size_t i = 0; i < workers; ++i) {
      profile.job.slowness.push_back(slowness.at(i).number());
      if (profile.job.slowness.back() <= 0)
        slowness.at(i).fail(cat(profile.job.slowness.back(), " is not positive"));
    }
  }
  if (root.has("straggler")) {
    const JsonField straggler = root.at("straggler");
    straggler.allow_only({"probability", "delay"});
    const double probability = straggler.at("probability").number_not_negative();
    if (probability > 1) straggler.at("probability").fail(cat(probability, " is not a probability"));
    profile.job.straggler = {probability, distribution_of(straggler.at("delay"))};
  }
  if (root.has("message_cost"))
    profile.job.message_s_per_byte = seconds_of(root.at("message_cost")) / kMessageCostBytes;
  if (root.has("memory_bandwidth")) profile.memory_bytes_per_s = rate_of(root.at("memory_bandwidth"));
  if (root.has("strong_scaling")) {
    const JsonField strong = root.at("strong_scaling");
    strong.allow_only({"floor", "exponent"});
    profile.strong = {seconds_of(strong.at("floor")), strong.at("exponent").number()};
    if (profile.strong->exponent < 1)
      strong.at("exponent").fail(cat(profile.strong->exponent, " is below 1"));
    const double compute = profile.job.forward_backward_s();
    if (profile.strong->floor_s >= compute)
      strong.at("floor").fail(cat(human_seconds(profile.strong->floor_s),
                                  " is not under the profile's forward and backward, ",
                                  human_seconds(compute)));
  }
}

}  // namespace

Profile parse_profile(std::string_view json, const std::string& file) {
  require_shallow_json(json, file);
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(json);
  } catch (const nlohmann::json::parse_error& error) {
    throw InputError(cat("is not JSON: ", json_problem(error.what())), file,
                     "see docs/planning.md for the fields of a profile");
  }
  const JsonField root(document, file);
  root.allow_only({"kith_profile", "name", "about", "workers", "nodes", "forward", "buckets", "batch",
                   "slowness", "straggler", "message_cost", "links", "memory_bandwidth", "strong_scaling"});
  const JsonField version = root.at("kith_profile");
  if (version.whole_number(1) != kVersion)
    version.fail(cat("version ", version.whole_number(1)), cat("this kith reads version ", kVersion));
  Profile profile;
  profile.name = file;
  profile.nodes = nodes_of(root.at("nodes"));
  profile.job.forward = distribution_of(root.at("forward"));
  read_buckets(root.at("buckets"), profile.job);
  read_links(root.at("links"), profile);
  read_optional(root, profile);
  return profile;
}

Profile read_profile(const std::string& path) {
  return parse_profile(read_input(path), path);
}

Profile with_nodes(const Profile& profile, const graph::Shape& nodes) {
  Profile changed = profile;
  changed.nodes = nodes;
  if (nodes.nodes() > 1 && !profile.between_known) {
    throw InputError(cat("nodes ", nodes.text(), ", measured on one machine"), profile.name,
                     "give --link RATE, or measure over several machines");
  }
  if (nodes.workers() > nodes.nodes() && !profile.inside_known) {
    throw InputError(cat("nodes ", nodes.text(), ", measured with one worker per machine"), profile.name,
                     "add links.inside to the profile, or measure with several workers per machine");
  }
  if (!profile.job.slowness.empty() && nodes.workers() != profile.nodes.workers()) {
    throw InputError(cat("nodes ", nodes.text(), " have ", nodes.workers(),
                         " workers, the profile's slowness ", profile.job.slowness.size()),
                     profile.name, "leave slowness out of the profile to plan for other worlds");
  }
  if (!profile.strong) return changed;
  const double p = profile.strong->exponent;
  const double now = profile.job.forward_backward_s();
  const double floor = std::pow(profile.strong->floor_s, p);
  const double share = std::pow(std::pow(now, p) - floor, 1 / p) * profile.nodes.workers() / nodes.workers();
  changed.job = profile.job.with_compute_scaled(std::pow(floor + std::pow(share, p), 1 / p) / now);
  return changed;
}

Profile with_link(const Profile& profile, double nic_bytes_per_s) {
  Profile changed = profile;
  changed.network.between.bytes_per_s *= nic_bytes_per_s / profile.network.nic_bytes_per_s;
  changed.between_known = true;
  changed.network.nic_bytes_per_s = nic_bytes_per_s;
  return changed;
}

Profile with_batch_spread(const Profile& profile, double cv) {
  Profile changed = profile;
  changed.job.batch = Distribution::lognormal(1, cv);
  return changed;
}

}  // namespace kith::plan

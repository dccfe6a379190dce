#include "bench/figure6/model.h"

#include <array>
#include <cmath>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/sim/simulate.h"

namespace figure6 {
namespace {

using kith::sim::Distribution;

// What is known of a cluster without measuring it.
struct Cluster {
  std::string name;
  int workers_per_node;
  double label_bytes_per_s;   // of the network
  double inside_bytes_per_s;  // one worker to another of its node
  double memory_bytes_per_s;
  double floor_guess_s;
  double work_guess_s;  // compute of the whole global batch on one worker
};

const std::array<Cluster, 3> kClusters{{{"T4", 8, 12.5e9, 6e9, 0.32e12, 60e-3, 4.8},
                                        {"A100", 4, 12.5e9, 200e9, 1.55e12, 35e-3, 0.4},
                                        {"A40", 4, 3.125e9, 12e9, 0.69e12, 45e-3, 0.9}}};

// Buckets of the transformer in backward order: the tied embedding finishes last.
constexpr std::array<double, 7> kBucketBytes{27e6, 27e6, 27e6, 27e6, 27e6, 27e6, 89e6};
constexpr double kEmbeddingBytes = 76e6;
constexpr double kForwardShare = 1.0 / 3;  // of forward + backward
constexpr double kStepBytesPerByte = 10;   // Adam, mix and copies, per byte of fp32 parameters
constexpr double kInsideLatency_s = 10e-6;
constexpr double kBetweenLatency_s = 20e-6;

constexpr std::size_t kPerCluster = 3;  // floor, work, flow
constexpr std::size_t kShared = kPerCluster * 3;

std::size_t cluster_index(const Bar& bar) {
  for (std::size_t i = 0; i < kClusters.size(); ++i) {
    if (kClusters[i].name == bar.cluster) return i;
  }
  throw kith::InputError(kith::cat("unknown cluster '", bar.cluster, "'"));
}

// (floor^p + (work x / n)^p)^(1/p): a floor that small batches do not get under, and batches whose length
// varies by x.
Distribution compute_times(double floor_s, double share_s, double exponent, double cv) {
  constexpr int kQuantiles = 2000;
  const double sigma = std::sqrt(std::log1p(cv * cv));
  std::vector<double> values;
  for (int i = 0; i < kQuantiles; ++i) {
    const double x = std::exp(sigma * kith::sim::normal_quantile((i + 0.5) / kQuantiles) - sigma * sigma / 2);
    values.push_back(std::pow(std::pow(floor_s, exponent) + std::pow(share_s * x, exponent), 1 / exponent));
  }
  return Distribution::samples(std::move(values));
}

}  // namespace

const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> all = [] {
    std::vector<Parameter> list;
    for (const Cluster& cluster : kClusters) {
      list.push_back({cluster.name + " floor", "s", cluster.floor_guess_s, 1});
      list.push_back({cluster.name + " work", "s", cluster.work_guess_s, 1});
      list.push_back({cluster.name + " flow", "B/s", 0.7 * cluster.label_bytes_per_s, 1});
    }
    list.push_back({"NIC over label", "", 1, 1});
    list.push_back({"batch spread", "", 0.1, 1});
    list.push_back({"floor exponent", "", 3, 0.5});
    return list;
  }();
  return all;
}

kith::sim::Scenario scenario_of(const Bar& bar, std::span<const double> values, const Settings& settings) {
  KITH_CHECK_EQ(values.size(), parameters().size(), "one value for each parameter");
  const std::size_t index = cluster_index(bar);
  const Cluster& cluster = kClusters[index];
  const double floor_s = values[index * kPerCluster];
  const double work_s = values[index * kPerCluster + 1];
  const double flow = values[index * kPerCluster + 2];
  const double nic = values[kShared] * cluster.label_bytes_per_s;
  const Distribution compute =
      compute_times(floor_s, work_s / bar.workers, values[kShared + 2], values[kShared + 1]);

  kith::sim::Scenario scenario;
  const int nodes = bar.workers / cluster.workers_per_node;
  scenario.placement =
      kith::graph::Shape(std::vector<int>(static_cast<std::size_t>(nodes), cluster.workers_per_node));
  scenario.network = {{kInsideLatency_s, cluster.inside_bytes_per_s}, {kBetweenLatency_s, flow}, nic};
  scenario.job.batch = compute.scaled(1 / compute.mean_s());
  scenario.job.forward = Distribution::constant(kForwardShare * compute.mean_s());
  double layers = -kEmbeddingBytes;
  for (const double bytes : kBucketBytes)
    layers += bytes;
  for (std::size_t b = 0; b < kBucketBytes.size(); ++b) {
    const double own = kBucketBytes[b] - (b + 1 == kBucketBytes.size() ? kEmbeddingBytes : 0);
    scenario.job.buckets.push_back(
        {kBucketBytes[b], Distribution::constant((1 - kForwardShare) * compute.mean_s() * own / layers),
         Distribution::constant(kStepBytesPerByte * kBucketBytes[b] / cluster.memory_bytes_per_s)});
  }
  if (bar.method != Method::all_reduce)
    scenario.schedule =
        kith::graph::make_schedule({.topology = name_of(bar.method), .shape = scenario.placement});
  // NCCL takes its tree between two nodes and its ring between more.
  const bool two_nodes = nodes == 2 || bar.method == Method::aer;
  scenario.collective = two_nodes ? kith::sim::Collective::tree : kith::sim::Collective::ring;
  scenario.mix_at = kith::sim::MixAt::backward;
  scenario.iterations = settings.iterations;
  scenario.seed = settings.seed;
  return scenario;
}

double predict(const Bar& bar, std::span<const double> values, const Settings& settings) {
  return kith::sim::simulate(scenario_of(bar, values, settings)).iteration_s * 1e3;
}

}  // namespace figure6

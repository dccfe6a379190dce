#include "kith/plan/candidate.h"

#include <algorithm>

#include "kith/base/text.h"
#include "kith/graph/stagger.h"
#include "kith/plan/bucketing.h"
#include "kith/plan/messages.h"

namespace kith::plan {
namespace {

// Iterations enough for a mean over the workers where every round is the same.
int least_iterations(int workers) {
  return std::max(60, 20'000 / workers);
}

// As the engine does: a small model is cut into this many buckets.
void cut(sim::Scenario& scenario, std::int64_t parts) {
  double largest = 0;
  for (const sim::Bucket& bucket : scenario.job.buckets)
    largest = std::max(largest, bucket.bytes);
  const double bytes = graph::staggered_bucket_bytes(parts, scenario.job.bytes(), largest);
  if (bytes < largest) scenario.job = rebucket(scenario.job, bytes);
}

void stagger(sim::Scenario& scenario) {
  const std::int64_t turns = graph::turns_of(*scenario.schedule);
  if (turns == 1) return;
  cut(scenario, turns);
  std::vector<double> by_bucket;
  for (const sim::Bucket& bucket : scenario.job.buckets)
    by_bucket.push_back(bucket.bytes);
  scenario.ahead = graph::stagger(turns, by_bucket);
}

}  // namespace

std::string Candidate::text() const {
  if (!outer.empty()) return cat(outer, ", every ", every);
  std::string words = topology;
  if (all_reduce()) words += cat(" (", collective == sim::Collective::ring ? "ring" : "hierarchical", ")");
  if (wire != DType::f32) words += cat(", ", name_of(wire));
  if (!codec.empty()) words += cat(", codec ", codec);
  if (bucket_bytes > 0) words += cat(", ", bucket_bytes / 1e6, " MB buckets");
  if (every > 1) words += cat(", every ", every);
  return words;
}

std::vector<Candidate> plain_candidates() {
  std::vector<Candidate> all{{kAllReduce, sim::Collective::ring}, {kAllReduce, sim::Collective::three_hop}};
  for (const std::string& name : graph::schedule_names()) {
    if (name != "file") all.push_back({name});
  }
  return all;
}

std::vector<Candidate> variations(const Candidate& candidate) {
  std::vector<Candidate> all;
  for (const DType wire : {DType::f32, DType::bf16}) {
    for (const double bucket_bytes : {0.0, 10e6, 100e6}) {
      for (const int every : {1, 4}) {
        Candidate next = candidate;
        next.wire = wire;
        next.bucket_bytes = bucket_bytes;
        next.every = every;
        if (next != candidate && (every == 1 || !candidate.all_reduce())) all.push_back(next);
      }
    }
  }
  if (candidate.all_reduce()) return all;
  Candidate eight_bits = candidate;
  eight_bits.wire = DType::i8;
  all.push_back(eight_bits);
  if (candidate.topology.ends_with("directed")) return all;
  for (const CodecSize& codec : codec_sizes()) {
    Candidate next = candidate;
    next.codec = codec.name;
    all.push_back(next);
  }
  return all;
}

std::vector<Candidate> outer_loops() {
  constexpr int kInnerSteps = 50;
  Candidate diloco{"complete"}, noloco{"matching"};
  diloco.outer = kDiloco;
  noloco.outer = kNoloco;
  diloco.every = noloco.every = kInnerSteps;
  return {diloco, noloco};
}

sim::Scenario scenario_of(const Profile& profile, const Candidate& candidate,
                          const SimulationOptions& simulation) {
  sim::Scenario scenario;
  scenario.placement = profile.nodes;
  scenario.job = candidate.bucket_bytes > 0 ? rebucket(profile.job, candidate.bucket_bytes) : profile.job;
  scenario.network = profile.network;
  if (candidate.all_reduce()) {
    cut(scenario, graph::kAllReduceParts);
  } else {
    scenario.schedule = graph::make_schedule(
        {.topology = candidate.topology, .shape = profile.nodes, .seed = simulation.seed});
    stagger(scenario);
  }
  scenario.collective = candidate.collective;
  scenario.wire = candidate.wire;
  if (!candidate.codec.empty()) scenario.message_share = message_share(candidate.codec, *scenario.schedule);
  scenario.every = candidate.every;
  const bool one_round = scenario.schedule && scenario.schedule->period() == 1;
  scenario.iterations = one_round ? std::min(simulation.iterations, least_iterations(profile.nodes.workers()))
                                  : simulation.iterations;
  scenario.seed = simulation.seed;
  return scenario;
}

}  // namespace kith::plan

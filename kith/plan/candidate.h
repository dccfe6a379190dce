#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kith/plan/profile.h"
#include "kith/sim/scenario.h"

namespace kith::plan {

inline constexpr const char* kAllReduce = "all-reduce";
inline constexpr const char* kDiloco = "diloco";
inline constexpr const char* kNoloco = "noloco";

// One way to train the job.
struct Candidate {
  std::string topology = kAllReduce;  // or a name that graph::make_schedule takes
  sim::Collective collective = sim::Collective::three_hop;
  DType wire = DType::f32;
  double bucket_bytes = 0;  // 0: as in the profile
  int every = 1;
  std::string codec = {};  // in place of a wire: kith/plan/messages.h
  std::string outer = {};  // kDiloco, kNoloco: outer steps every so many, nothing in between

  bool all_reduce() const { return topology == kAllReduce; }
  // Changes nothing but who talks to whom: full precision, every step.
  bool plain() const { return wire == DType::f32 && every == 1 && codec.empty() && outer.empty(); }
  // How many steps it needs has been measured, for this or for another topology and number of workers.
  bool steps_are_known() const { return wire != DType::i8 && codec.empty() && outer.empty(); }
  bool as_profiled() const { return plain() && bucket_bytes == 0; }
  // "aer, bf16, every 4".
  std::string text() const;
  bool operator==(const Candidate&) const = default;
};

// Sizes of the simulations behind a prediction.
struct SimulationOptions {
  int iterations = 400;  // fewer bias one-peer schedules
  std::uint64_t seed = 0;
};

// All-reduce (ring and hierarchical) and every topology that needs no file, as profiled: fp32, every step.
std::vector<Candidate> plain_candidates();

// A candidate's variations: 16-bit wire, larger and smaller buckets, mixing every 4 steps; an 8-bit wire;
// codecs. All-reduce has no 8-bit wire, no period and no codec, and directed topologies take no codec as
// coarse as these.
std::vector<Candidate> variations(const Candidate& candidate);

// diloco and noloco, every 50 steps.
std::vector<Candidate> outer_loops();

// REQUIRES: the candidate's topology exists for the profile's nodes (InputError otherwise).
sim::Scenario scenario_of(const Profile& profile, const Candidate& candidate,
                          const SimulationOptions& simulation);

}  // namespace kith::plan

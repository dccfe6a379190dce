#include "kith/plan/plan_file.h"

#include <sstream>

#include "kith/plan/units.h"

namespace kith::plan {

std::string plan_toml(const Profile& profile, const Recommendation& recommendation) {
  const Prediction& choice = recommendation.choice;
  const Candidate& candidate = choice.candidate;
  std::ostringstream out;
  out << "# " << recommendation.reason << "\n"
      << "# Predicted: " << human_seconds(choice.time.iteration_s) << " an iteration, 5-95% "
      << human_seconds(choice.time.low_s) << " to " << human_seconds(choice.time.high_s) << "; "
      << text_of(choice.steps) << " times all-reduce's steps for its loss.\n"
      << "[world]\nworkers = " << profile.nodes.workers() << "\nnodes = \"" << profile.nodes.text()
      << "\"\n\n[algorithm]\n";
  if (candidate.all_reduce()) {
    out << "name = \"allreduce\"\n";
  } else {
    const auto schedule = graph::make_schedule({.topology = candidate.topology, .shape = profile.nodes});
    out << "name = \"" << (schedule->directed() ? "sgp" : "awc") << "\"\nmix_every = " << candidate.every
        << "\n\n[topology]\nname = \"" << candidate.topology << "\"\n";
  }
  out << "\n[wire]\ntype = \"" << name_of(candidate.wire) << "\"\n";
  if (candidate.bucket_bytes > 0) out << "bucket = \"" << candidate.bucket_bytes / 1e6 << "MB\"\n";
  return out.str();
}

}  // namespace kith::plan

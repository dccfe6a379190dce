#include <array>
#include <cstdio>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/graph/shape.h"
#include "kith/observe/report.h"
#include "kith/plan/evaluate.h"
#include "kith/plan/units.h"

namespace kith::observe {
namespace {

plan::Candidate candidate_of(const RunReader& run) {
  const Settings settings = run.settings();
  const std::string wire = setting(settings, "wire.type");
  plan::Candidate candidate;
  if (setting(settings, "algorithm.name") != "allreduce")
    candidate.topology = setting(settings, "topology.name");
  const std::string place = (run.folder() / "config.toml").string();
  if (wire != "full") candidate.wire = parse_wire(wire, place + ": wire.type");
  const std::string every = setting(settings, "algorithm.mix_every");
  candidate.every = every.empty() || candidate.all_reduce() ? 1 : std::stoi(every);
  return candidate;
}

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f%%", 100 * share);
  return text.data();
}

}  // namespace

std::vector<std::vector<std::string>> plan_against_measured(const RunReader& run,
                                                            const plan::Profile& profile) {
  const int workers = static_cast<int>(run.state().workers().size());
  if (workers != profile.nodes.workers()) {
    throw InputError(cat("the profile ", profile.name, " is of ", profile.nodes.workers(),
                         " workers, the run has ", workers),
                     run.folder().string(), "profile the job with as many workers as the run has");
  }
  const plan::Candidate candidate = candidate_of(run);
  const plan::Prediction prediction = plan::predict(profile, candidate, {});
  double lines = 0, seconds = 0, waited = 0, bytes = 0;
  for (const auto& [id, worker] : run.state().workers()) {
    lines += worker.steps;
    seconds += worker.seconds;
    waited += worker.waited;
    bytes += worker.bytes_read;
  }
  if (lines == 0) return {};
  const double mean = seconds / lines;
  return {
      {candidate.text(), "predicted", "measured"},
      {"iteration",
       cat(plan::human_seconds(prediction.time.iteration_s), " (5-95% ",
           plan::human_seconds(prediction.time.low_s), " to ", plan::human_seconds(prediction.time.high_s),
           ")"),
       plan::human_seconds(mean)},
      {"waiting", percent(prediction.time.waited_s / prediction.time.iteration_s), percent(waited / seconds)},
      {"measured / predicted", "1", percent(mean / prediction.time.iteration_s)},
      {"read per worker and step", "", human_bytes(bytes / lines)}};
}

}  // namespace kith::observe

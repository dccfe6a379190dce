#include "kith/train/run/recorder.h"

namespace kith::train {

Recorder::Recorder(const engine::WorldParts& world, const RecordedRun& run)
    : file_(run.file, run.steps_done, world.log),
      meter_(world, run.units_per_step, static_cast<std::size_t>(run.parameters)),
      step_(run.steps_done) {
  StartMetrics start = start_of(world, run.steps_done);
  start.steps = run.steps;
  start.seconds = run.seconds;
  start.unit = run.unit;
  start.units_per_step = run.units_per_step;
  start.environment.insert(start.environment.end(), run.environment.begin(), run.environment.end());
  file_.write(start);
  write_members(world.members);
}

void Recorder::write(const StepMetrics& metrics) {
  step_ = metrics.step;
  file_.write(metrics);
  if (const auto links = meter_.links(step_)) file_.write(*links);
}

void Recorder::write(EvalMetrics metrics) {
  metrics.time = unix_time();
  file_.write(metrics);
}

void Recorder::write_members(const Members& members) {
  file_.write(MembersMetrics{step_, unix_time(), members});
}

void Recorder::write_loss(const Loss& loss) {
  file_.write(LossMetrics{step_, unix_time(), WorkerId{loss.worker}, loss.heard, loss.mean_shift,
                          loss.samples_again, loss.samples_unseen});
}

void Recorder::write_end(const std::string& ending, const std::string& error) {
  file_.write(*meter_.links(step_, /*at_once=*/true));
  file_.write(EndMetrics{step_, unix_time(), ending, error});
}

}  // namespace kith::train

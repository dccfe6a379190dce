#include "kith/train/run/trainer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include <c10/core/DeviceGuard.h>
#include <torch/torch.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/telemetry/span.h"
#include "kith/train/checkpoint.h"
#include "kith/train/data/dataset.h"
#include "kith/train/data/loader.h"
#include "kith/train/data/sampler.h"
#include "kith/train/data_parallel.h"
#include "kith/train/export.h"
#include "kith/train/grad_scaler.h"
#include "kith/train/learning_rate.h"
#include "kith/train/models/model.h"
#include "kith/train/run/evaluate.h"
#include "kith/train/run/job_options.h"
#include "kith/train/run/model_pass.h"
#include "kith/train/run/progress.h"
#include "kith/train/run/rates_text.h"
#include "kith/train/run/time_budget.h"
#include "kith/train/stop_request.h"

namespace kith::train {
namespace {

Options wrapper_options(const TrainerOptions& options) {
  const Job& job = options.job;
  Options wrapper = options_of(job);
  // Biases and norms are not decayed, as everywhere.
  wrapper.groups = {{.name = "no-decay",
                     .takes = [](const std::string&, const torch::Tensor& p) { return p.dim() < 2; },
                     .lr = {},
                     .weight_decay = 0.0}};
  wrapper.resume_from = options.resume_from;
  return wrapper;
}

class Trainer {
 public:
  Trainer(const TrainerOptions& options, const Dataset& dataset, const engine::World& world)
      : options_(options),
        job_(options.job),
        dataset_(dataset),
        world_(world),
        steps_(total_steps(options.job, dataset)),
        budget_({.seconds = options.job.train.seconds}),
        lr_(rate_options(options.job, steps_)),
        device_(device_for(options.job, world)),
        current_device_(device_),
        model_(model_on(device_, options.job)),
        wrapped_(model_, world, wrapper_options(options)),
        loader_(dataset, resumed_sampler(), {.device = device_}),
        requests_(world, {.patience = wrapped_.engine().options().patience}),
        metrics_(options.folder.metrics(world.self().value), wrapped_.steps(), world.log),
        saved_(world.clock->now()) {
    // Dropout draws other numbers on every worker. A resumed run has its generator's state from the
    // checkpoint.
    if (!wrapped_.resumed() && job_.model.dropout > 0)
      torch::manual_seed(hash_words(job_.train.seed, world.rank()));
    if (world_.rank() == 0) start_progress();
  }

  Summary run(const std::atomic<Ending>& asked) {
    Ending ending = Ending::finished;
    if (timed() && wrapped_.steps() > 0) reckon();
    while (true) {
      ask(asked);
      if (const auto request = requests_.due(wrapped_.steps())) {
        // Who stops a run counts on its checkpoint.
        save(*request == Request::save ? OnFullDisk::go_on : OnFullDisk::fail);
        if (*request != Request::save) {
          ending = *request == Request::interrupt ? Ending::interrupted : Ending::terminated;
          break;
        }
      }
      if (wrapped_.steps() >= steps_) break;
      iterate();
      after_step();
    }
    if (ending == Ending::finished) finish();
    flush_metrics();
    return summarize(ending);
  }

 private:
  // The numbers of a step, some of them still on their way from the device.
  struct PendingMetrics {
    StepMetrics metrics;
    std::vector<PendingValue> losses;
    std::shared_future<double> gradient_norm;
  };

  // What this worker wants of all, when it wants something: worker 0 has the clock of timed checkpoints.
  void ask(Ending asked) {
    if (asked != Ending::finished) {
      requests_.ask(asked == Ending::interrupted ? Request::interrupt : Request::terminate);
    } else if (world_.rank() == 0 && job_.checkpoint.minutes > 0 &&
               world_.clock->now() - saved_ >= from_seconds(60 * job_.checkpoint.minutes)) {
      requests_.ask(Request::save);
    }
  }

  bool timed() const { return job_.train.seconds > 0; }
  bool scales_loss() const { return job_.train.precision == "fp16"; }

  // The position in a checkpoint: the sampler's, then the scaler's where there is one.
  Sampler resumed_sampler() {
    Sampler sampler(sampler_options(job_, dataset_, world_.rank()));
    if (const auto& resumed = wrapped_.resumed()) {
      const std::size_t scaler = scales_loss() ? scaler_.state().size() : 0;
      const std::span<const std::byte> position = resumed->position;
      const std::size_t split = position.size() - std::min(scaler, position.size());
      sampler.seek(position.first(split));
      const std::int64_t batches = resumed->step * job_.train.accumulate;
      if (sampler.drawn() != static_cast<std::uint64_t>(batches)) {
        throw InputError(cat(sampler.drawn(), " batches were drawn, and ", batches, " make the steps done"),
                         "data position of the checkpoint", "it is damaged, or train.accumulate has changed");
      }
      if (resumed->workers != world_.size() && world_.rank() == 0) {
        world_.log->warning(cat("saved by ", resumed->workers, " workers, goes on with ", world_.size(),
                                ": each one's own share of the data is not kept, the ", sampler.left(),
                                " samples left of epoch ", sampler.epoch(), " are dealt anew"));
      }
      if (scales_loss()) scaler_.restore(position.subspan(split));
    }
    return sampler;
  }

  std::vector<std::byte> position() const {
    std::vector<std::byte> bytes = loader_.position();
    if (scales_loss()) {
      const std::vector<std::byte> scaler = scaler_.state();
      bytes.insert(bytes.end(), scaler.begin(), scaler.end());
    }
    return bytes;
  }

  void start_progress() {
    ProgressOptions progress;
    progress.terminal = options_.terminal;
    progress.first_step = wrapped_.steps();
    progress.steps = timed() ? 0 : steps_;
    progress.line_every = job_.output.log_every;
    progress.units_per_step = units_per_step();
    progress.unit = dataset_.unit();
    progress_ = std::make_unique<Progress>(progress, *world_.clock);
    progress_->note(
        cat(job_.model.name, " with ", parameter_count(*model_), " parameters, ", job_.world.workers,
            " workers, ", job_.algorithm.name, averages_models(job_) ? cat(" on ", job_.topology.name) : "",
            ", ", job_.optimizer.name, ", ", timed() ? cat(job_.train.seconds, " s") : cat(steps_, " steps"),
            wrapped_.steps() > 0 ? cat(", going on from step ", wrapped_.steps()) : ""));
  }

  std::int64_t units_per_step() const {
    return job_.train.batch * job_.train.accumulate * job_.world.workers * dataset_.units_per_sample();
  }

  telemetry::Span span(std::string_view name) const {
    return {world_.trace, *world_.clock, {.name = name, .category = "train", .worker = world_.self()}};
  }

  torch::Tensor forward(const Batch& batch) {
    const auto forward = span("forward");
    return loss_of(job_, *model_, batch);
  }

  // Forward and backward; the gradients add up in the parameters. The loss counts by `weight`.
  void accumulate_gradient(const Batch& batch, PendingMetrics& now, double weight = 1) {
    const torch::Tensor loss = weight * forward(batch);
    const auto backward = span("backward");
    (scales_loss() ? scaler_.scale(loss) : loss).backward();
    now.losses.push_back(wrapped_.read(loss));
  }

  bool measures_noise() const {
    return wrapped_.corrects_noise() && job_.optimizer.noise_every > 0 &&
           wrapped_.steps() % job_.optimizer.noise_every == 0;
  }

  // Of the whole step. Where noise is measured, the batches are parted in the middle; one batch is cut in
  // two.
  void accumulate_gradients(PendingMetrics& now) {
    const std::int64_t batches = job_.train.accumulate;
    const bool measures = measures_noise();
    for (std::int64_t i = 1; i < batches; ++i) {
      const auto guard = wrapped_.no_sync();
      accumulate_gradient(loader_.next(), now);
      if (measures && i == batches / 2)
        wrapped_.measure_noise(static_cast<double>(i) / static_cast<double>(batches));
    }
    const Batch last = loader_.next();
    const std::int64_t samples = last.input.size(0);
    if (!measures || batches > 1 || samples == 1) return accumulate_gradient(last, now);
    const std::int64_t half = samples / 2;
    const double share = static_cast<double>(half) / static_cast<double>(samples);
    const auto part = [&](std::int64_t first, std::int64_t count) {
      const std::int64_t targets = last.target.size(0) / samples;
      return Batch{last.input.narrow(0, first, count),
                   last.target.narrow(0, first * targets, count * targets)};
    };
    {
      const auto guard = wrapped_.no_sync();
      accumulate_gradient(part(0, half), now, share);
    }
    wrapped_.measure_noise(share);
    accumulate_gradient(part(half, samples - half), now, 1 - share);
  }

  // Once, when there is something to say: what became of the rate, and why.
  void note_rates() {
    if (noted_rates_ || !progress_ || wrapped_.noise_share() == 0) return;
    noted_rates_ = true;
    progress_->note(rates_text(wrapped_));
  }

  void iterate() {
    const Clock::Time start = world_.clock->now();
    const auto iteration = span("iteration");
    PendingMetrics now;
    now.metrics.epoch = loader_.epoch();
    now.metrics.lr = lr_at(lr_, wrapped_.steps());
    wrapped_.set_lr(now.metrics.lr);
    wrapped_.zero_grad();
    if (measures_noise() && wrapped_.steps() > 0) now.metrics.noise = wrapped_.noise_share();
    note_rates();
    accumulate_gradients(now);
    step(now);
    // On a GPU these have arrived while this step was under way.
    flush_metrics();
    now.metrics.seconds = seconds(world_.clock->now() - start);
    pending_ = std::move(now);
    if (device_.is_cpu()) flush_metrics();
  }

  void step(PendingMetrics& now) {
    const auto step = span("step");
    if (job_.train.clip > 0) wrapped_.clip_grad_norm(job_.train.clip);
    const StepOptions options{.gradient_scale = 1 / static_cast<double>(job_.train.accumulate)};
    const StepReport report = scales_loss() ? scaler_.step(wrapped_, options) : wrapped_.step(options);
    now.gradient_norm = report.gradient_norm;
    now.metrics.step = report.step + 1;
    now.metrics.skipped = report.skipped;
    now.metrics.waited_seconds = seconds(report.waited);
    now.metrics.bytes_read = report.bytes_read;
    now.metrics.bytes_published = report.bytes_published;
  }

  void flush_metrics() {
    if (!pending_) return;
    StepMetrics& metrics = pending_->metrics;
    for (const PendingValue& loss : pending_->losses)
      metrics.loss += loss.get() / static_cast<double>(job_.train.accumulate);
    if (pending_->gradient_norm.valid()) metrics.gradient_norm = pending_->gradient_norm.get();
    metrics_.write(metrics);
    if (progress_) progress_->step(metrics);
    pending_.reset();
  }

  // Collective. How many steps the time is good for, as all workers together see it.
  void reckon() {
    flush_metrics();
    budget_.reckon(wrapped_.steps(), mean(metrics_.totals().seconds));
    steps_ = budget_.steps();
    lr_ = rate_options(job_, steps_);
    lr_.total_steps = std::max(steps_, lr_.warmup_steps + 1);
    if (progress_) progress_->set_steps(steps_);
  }

  void after_step() {
    const std::int64_t done = wrapped_.steps();
    const bool stage_over = timed() && done == budget_.next();
    if (stage_over) reckon();
    if (done >= steps_) return;
    const bool evaluates =
        timed() ? stage_over : done % std::max<std::int64_t>(1, job_.train.eval_every) == 0;
    if (job_.train.eval_every > 0 && evaluates) evaluate_now();
    if (job_.checkpoint.every > 0 && done % job_.checkpoint.every == 0) save(OnFullDisk::go_on);
  }

  void evaluate_now() {
    flush_metrics();
    const auto evaluation = span("evaluation");
    last_ = evaluate(wrapped_, *model_, dataset_, job_);
    last_->seconds = metrics_.totals().seconds;
    // A run that died after its last step has this one in its file.
    if (metrics_.last_evaluation() != last_->step) metrics_.write(*last_);
    if (progress_) progress_->evaluation(*last_);
  }

  enum class OnFullDisk : std::uint8_t { fail, go_on };

  void save(OnFullDisk on_full_disk) {
    flush_metrics();
    // Nothing has happened since the checkpoint that this run goes on from.
    if (wrapped_.resumed() && wrapped_.resumed()->step == wrapped_.steps()) return;
    const auto saving = span("checkpoint");
    const std::vector<std::byte> position = this->position();
    try {
      const auto folder = save_checkpoint(wrapped_, {.root = options_.folder.checkpoints(),
                                                     .keep = static_cast<int>(job_.checkpoint.keep),
                                                     .position = position});
      if (progress_) progress_->note(cat("step ", wrapped_.steps(), "  saved ", folder.string()));
    } catch (const Error& error) {
      // The one before is still there. A worker that is gone fails the next step too.
      if (on_full_disk == OnFullDisk::fail) throw;
      if (world_.rank() == 0)
        world_.log->warning(cat("no checkpoint of step ", wrapped_.steps(), ": ", error.what()));
    }
    saved_ = world_.clock->now();
  }

  void finish() {
    evaluate_now();
    save(OnFullDisk::go_on);
    export_model(wrapped_, options_.folder.model());
  }

  double mean(double value) {
    const std::vector<double> all = wrapped_.gather(value);
    return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  }

  Summary summarize(Ending ending) {
    const MetricTotals& totals = metrics_.totals();
    const double seconds_all = mean(totals.seconds);
    const double waited = mean(totals.waited_seconds);
    const double steps_each = mean(static_cast<double>(totals.steps));  // workers may have joined later
    const double bytes = mean(totals.bytes_read) * world_.size();
    const double lost = mean(static_cast<double>(metrics_.unwritten())) * world_.size();
    Summary summary{.ending = ending,
                    .steps = wrapped_.steps(),
                    .parameters = parameter_count(*model_),
                    .validation_loss = last_ ? last_->loss : NAN,
                    .validation_accuracy = last_ ? last_->accuracy : NAN,
                    .consensus_distance = last_ ? last_->consensus_distance : NAN,
                    .seconds = seconds_all,
                    .seconds_per_iteration = seconds_all / std::max(1.0, steps_each),
                    .waiting_share = seconds_all > 0 ? waited / seconds_all : 0,
                    .unit = dataset_.unit(),
                    .bytes_sent = bytes,
                    .metrics_lost = std::llround(lost)};
    if (summary.seconds_per_iteration > 0) {
      summary.units_per_second = static_cast<double>(units_per_step()) / summary.seconds_per_iteration;
    }
    if (world_.rank() == 0) {
      if (summary.metrics_lost > 0)
        world_.log->warning(cat(summary.metrics_lost, " lines of metrics could not be written"));
      options_.folder.restore_config(job_);
      options_.folder.write_summary(summary_json(job_, summary));
    }
    return summary;
  }

  const TrainerOptions& options_;
  const Job& job_;
  const Dataset& dataset_;
  const engine::World& world_;
  std::int64_t steps_;  // the whole run's; with a time, as far as is known
  TimeBudget budget_;   // unless steps decide
  RateOptions lr_;
  const torch::Device device_;
  const c10::DeviceGuard current_device_;  // what torch does without a device in sight goes there too
  const std::shared_ptr<Model> model_;
  DecentralizedDataParallel wrapped_;
  GradScaler scaler_;
  Loader loader_;
  StopRequests requests_;
  MetricsFile metrics_;
  Clock::Time saved_;  // when there was nothing new to save, last
  bool noted_rates_ = false;
  std::optional<PendingMetrics> pending_;
  std::unique_ptr<Progress> progress_;  // worker 0
  std::optional<EvalMetrics> last_;
};

}  // namespace

Summary train(const TrainerOptions& options, const Dataset& dataset, const engine::World& world,
              const std::atomic<Ending>& asked) {
  torch::set_num_threads(static_cast<int>(options.job.world.compute_threads));
  return Trainer(options, dataset, world).run(asked);
}

}  // namespace kith::train

#include "kith/train/run/trainer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
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
#include "kith/train/data_parallel.h"
#include "kith/train/export.h"
#include "kith/train/grad_scaler.h"
#include "kith/train/learning_rate.h"
#include "kith/train/models/model.h"
#include "kith/train/run/begun.h"
#include "kith/train/run/dealt_data.h"
#include "kith/train/run/evaluate.h"
#include "kith/train/run/gradient_pass.h"
#include "kith/train/run/job_options.h"
#include "kith/train/run/model_pass.h"
#include "kith/train/run/progress.h"
#include "kith/train/run/rates_text.h"
#include "kith/train/run/recorder.h"
#include "kith/train/run/slow_worker.h"
#include "kith/train/run/sum_over_workers.h"
#include "kith/train/run/time_budget.h"
#include "kith/train/run/together.h"
#include "kith/train/stop_request.h"

namespace kith::train {
namespace {

class Trainer {
 public:
  Trainer(const TrainerOptions& options, const Dataset& dataset, const engine::WorldParts& world)
      : options_(options),
        job_(options.job),
        dataset_(dataset),
        world_(world),
        steps_(total_steps(options.job, dataset)),
        budget_({.seconds = options.job.train.seconds}),
        lr_(rate_options(options.job, steps_)),
        device_(device_for(options.job, world)),
        current_device_(device_),
        stream_(records_passes(options.job) ? own_stream(device_) : nullptr),
        model_(model_on(device_, options.job)),
        wrapped_(model_, world, wrapper_options(options.job, options.resume_from)),
        data_(options.job, dataset, wrapped_, scaler_),
        requests_(wrapped_.world(), {.patience = patience(), .joined = wrapped_.joined()}),
        metrics_(wrapped_.world(), recorded_run(options, dataset, wrapped_, timed() ? 0 : steps_)),
        saved_(world.clock->now()) {
    // Dropout draws other numbers on every worker. A resumed run has its generator's state from the
    // checkpoint.
    if (!wrapped_.resumed() && job_.model.dropout > 0)
      torch::manual_seed(hash_words(job_.train.seed, world.rank()));
    data_.share({.put = [this](Welcome& welcome) { put(welcome); },
                 .take = [this](const Welcome& welcome) { take(welcome); }});
    if (rank() == 0) start_progress();
    world_.store->set_once(kBegunKey, "yes");
  }

  Summary run(const std::atomic<Ending>& asked) {
    return metrics_.until_the_end([&] { return run_to_end(asked); });
  }

 private:
  Summary run_to_end(const std::atomic<Ending>& asked) {
    Ending ending = Ending::finished;
    if (wrapped_.joined()) {
      advance();  // the others are in this step, and count on it
    } else if (timed() && wrapped_.steps() > 0) {
      reckon();
    }
    while (true) {
      if (leaves(asked)) return leave(asked == Ending::left ? kAsked : kSlow);
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
      advance();
    }
    if (ending == Ending::finished) finish();
    flush_metrics();
    return summarize(ending);
  }

  void advance() {
    iterate();
    follow_members();
    settle();
    after_step();
  }

  // The numbers of a step, some of them still on their way from the device.
  struct PendingMetrics {
    StepMetrics metrics;
    std::vector<PendingValue> losses;
    std::shared_future<double> gradient_norm;
  };

  // Whether the others could do without this worker.
  bool can_leave() const { return options_.can_leave && can_spare_one(job_, size()); }
  bool leaves(Ending asked) {
    return (asked == Ending::left || slow_.too_slow()) && can_leave() && data_.membership().may_leave();
  }
  Summary leave(std::string_view why) {
    flush_metrics();
    if (why == kSlow) slow_.say_it_leaves();
    data_.membership().leave(why);
    wrapped_.finish();
    return {.ending = Ending::left, .steps = wrapped_.steps()};
  }

  // What this worker wants of all, when it wants something: worker 0 has the clock of timed checkpoints.
  void ask(Ending asked) {
    if (asked != Ending::finished && (asked != Ending::left || !can_leave())) {
      requests_.ask(asked == Ending::interrupted ? Request::interrupt : Request::terminate);
    } else if (rank() == 0 && job_.checkpoint.minutes > 0 &&
               world_.clock->now() - saved_ >= from_seconds(60 * job_.checkpoint.minutes)) {
      requests_.ask(Request::save);
    }
  }

  // In the view that stands.
  Rank rank() const { return wrapped_.world().rank(); }
  int size() const { return wrapped_.world().size(); }

  Clock::Duration patience() const { return wrapped_.engine().options().patience; }

  // After whatever may have changed the members.
  void follow_members() {
    const auto seen = data_.membership().follow();
    if (!seen) return;
    requests_.follow(data_.membership().members());
    metrics_.write_members(data_.membership().members());
    if (rank() == 0 && !progress_) start_progress();
    for (const std::string& text : texts_of(*seen, size()))
      if (progress_) progress_->note(text);
    if (size() >= job_.world.least) return;
    save(OnFullDisk::go_on);
    throw Error(cat(size(), " workers are left"), "world.least",
                cat(job_.world.least, " are wanted: start the run again with --resume"));
  }

  // After the step in which a view began: what a loss cost, and the data dealt among the members.
  void settle() {
    const auto settled = data_.settle();
    if (!settled) return;
    for (const Loss& loss : settled->losses) {
      metrics_.write_loss(loss);
      if (progress_) progress_->note(cat("step ", wrapped_.steps(), "  ", cost_text(loss)));
    }
    if (progress_)
      progress_->note(
          cat("step ", wrapped_.steps(), "  ", batch_text(job_, data_.membership().dealt_among())));
  }

  // What all workers know, for one that comes; and what that one does with it.
  void put(Welcome& welcome) const {
    welcome.budget = budget_.state();
    welcome.seconds = trained_seconds();
  }
  void take(const Welcome& welcome) {
    seconds_before_ = welcome.seconds - metrics_.totals().seconds;
    if (!timed()) return;
    budget_.take_over(welcome.budget);
    follow_budget();
  }

  // Of the whole run.
  double trained_seconds() const { return seconds_before_ + metrics_.totals().seconds; }

  void together(std::string_view what, const std::function<void()>& work) {
    train::together(wrapped_, what, work, [this] { follow_members(); });
  }

  bool timed() const { return job_.train.seconds > 0; }
  bool scales_loss() const { return train::scales_loss(job_); }

  void start_progress() {
    ProgressOptions progress;
    progress.terminal = options_.terminal;
    progress.first_step = wrapped_.steps();
    progress.steps = timed() ? 0 : steps_;
    progress.line_every = job_.output.log_every;
    progress.units_per_step = units_per_step();
    progress.unit = dataset_.unit();
    progress_ = std::make_unique<Progress>(progress, *world_.clock);
    progress_->note(opening_text(job_, parameter_count(*model_), size(), steps_, wrapped_.steps()));
  }

  std::int64_t units_per_step() const { return train::units_per_step(job_, dataset_) * size(); }

  telemetry::Span span(std::string_view name) const {
    return {world_.trace, *world_.clock, {.name = name, .category = "train", .worker = world_.self()}};
  }

  // Once, when there is something to say: what became of the rate, and why.
  void note_rates() {
    if (noted_rates_ || !progress_ || wrapped_.noise_share() == 0) return;
    noted_rates_ = true;
    progress_->note(rates_text(wrapped_));
  }

  void iterate() {
    const auto iteration = span("iteration");
    PendingMetrics now;
    metrics_.begin_step();
    now.metrics.epoch = data_.loader().epoch();
    now.metrics.lr = lr_at(lr_, wrapped_.steps()) * rate_share(job_, data_.membership().dealt_among());
    wrapped_.set_lr(now.metrics.lr);
    wrapped_.zero_grad();
    if (pass_.measures_noise() && wrapped_.steps() > 0) now.metrics.noise = wrapped_.noise_share();
    note_rates();
    if (data_.membership().comes()) {
      now.metrics.loss = NAN;
    } else {
      now.losses = pass_.run(data_.loader());
    }
    const StepReport report = step();
    now.gradient_norm = report.gradient_norm;
    data_.membership().note(report);
    // On a GPU these have arrived while this step was under way.
    flush_metrics();
    metrics_.end_step(now.metrics, report);
    pending_ = std::move(now);
    if (device_.is_cpu()) flush_metrics();
  }

  StepReport step() {
    const auto step = span("step");
    if (job_.train.clip > 0) wrapped_.clip_grad_norm(job_.train.clip);
    const StepOptions options{.gradient_scale = 1 / static_cast<double>(job_.train.accumulate)};
    return scales_loss() ? scaler_.step(wrapped_, options) : wrapped_.step(options);
  }

  void flush_metrics() {
    if (!pending_) return;
    StepMetrics& metrics = pending_->metrics;
    for (const PendingValue& loss : pending_->losses)
      metrics.loss += loss.get() / static_cast<double>(job_.train.accumulate);
    if (pending_->gradient_norm.valid()) metrics.gradient_norm = pending_->gradient_norm.get();
    metrics_.write(metrics);
    slow_.note(metrics);
    if (progress_) progress_->step(metrics);
    pending_.reset();
  }

  // Collective. How many steps the time is good for, as all workers together see it.
  void reckon() {
    flush_metrics();
    budget_.reckon(wrapped_.steps(), mean_of(wrapped_, trained_seconds()));
    follow_budget();
  }
  void follow_budget() {
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

  // Now and then a person hears whom everybody waits for.
  void name_the_slow() {
    if (job_.world.workers == 1) return;
    const auto slow = slow_.ask(wrapped_);
    follow_members();
    if (slow_.too_slow() && !can_leave()) slow_.say_it_stays();
    if (!progress_) return;
    // Asked in any case: what the Store hears does not depend on the clock.
    const std::string host = slow_.host_of(slow ? slow->worker : world_.self());
    if (slow) progress_->note(text_of(*slow, host));
  }

  void evaluate_now() {
    flush_metrics();
    name_the_slow();
    const auto evaluation = span("evaluation");
    std::optional<EvalMetrics> measured;
    together("the evaluation", [&] { measured = evaluate(wrapped_, *model_, dataset_, job_); });
    if (!measured) return;
    last_ = measured;
    last_->seconds = trained_seconds();
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
    const std::vector<std::byte> position = data_.position();
    try {
      together("the checkpoint", [&] {
        const auto folder = save_checkpoint(wrapped_, {.root = options_.folder.checkpoints(),
                                                       .keep = static_cast<int>(job_.checkpoint.keep),
                                                       .position = position,
                                                       .part = options_.part});
        if (progress_) progress_->note(cat("step ", wrapped_.steps(), "  saved ", folder.string()));
      });
    } catch (const Error& error) {
      // The one before is still there. A worker that is gone fails the next step too.
      if (on_full_disk == OnFullDisk::fail) throw;
      if (rank() == 0)
        world_.log->warning(cat("no checkpoint of step ", wrapped_.steps(), ": ", error.what()));
    }
    saved_ = world_.clock->now();
  }

  void finish() {
    evaluate_now();
    save(OnFullDisk::go_on);
    together("the export", [&] { export_model(wrapped_, options_.folder.model()); });
  }

  Summary summarize(Ending ending) {
    Summary summary = sum_over_workers(wrapped_, metrics_, data_.membership(), seconds_before_);
    follow_members();
    summary.ending = ending;
    summary.steps = wrapped_.steps();
    summary.parameters = parameter_count(*model_);
    summary.validation_loss = last_ ? last_->loss : NAN;
    summary.validation_accuracy = last_ ? last_->accuracy : NAN;
    summary.consensus_distance = last_ ? last_->consensus_distance : NAN;
    summary.unit = dataset_.unit();
    data_.membership().put_into(summary);
    if (summary.seconds_per_iteration > 0)
      summary.units_per_second = static_cast<double>(units_per_step()) / summary.seconds_per_iteration;
    if (rank() == 0) {
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
  const engine::WorldParts& world_;
  std::int64_t steps_;  // the whole run's; with a time, as far as is known
  TimeBudget budget_;   // unless steps decide
  RateOptions lr_;
  const torch::Device device_;
  const c10::DeviceGuard current_device_;  // what torch does without a device in sight goes there too
  const std::shared_ptr<void> stream_;     // torch's current one, where passes are recorded
  const std::shared_ptr<Model> model_;
  DecentralizedDataParallel wrapped_;
  GradScaler scaler_;
  GradientPass pass_{job_, *model_, wrapped_, scaler_};
  DealtData data_;
  StopRequests requests_;
  Recorder metrics_;
  double seconds_before_ = 0;  // of training, before this worker came
  Clock::Time saved_;          // when there was nothing new to save, last
  SlowWorkers slow_{world_, static_cast<int>(job_.world.leave_out_slow)};
  bool noted_rates_ = false;
  std::optional<PendingMetrics> pending_;
  std::unique_ptr<Progress> progress_;  // worker 0
  std::optional<EvalMetrics> last_;
};

}  // namespace

Summary train(const TrainerOptions& options, const Dataset& dataset, const engine::WorldParts& world,
              const std::atomic<Ending>& asked) {
  torch::set_num_threads(static_cast<int>(options.job.world.compute_threads));
  return Trainer(options, dataset, world).run(asked);
}

}  // namespace kith::train

#include "kith/train/run/profiler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>

#include <c10/core/DeviceGuard.h>
#include <torch/torch.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/telemetry/sink.h"
#include "kith/train/compat.h"
#include "kith/train/data/dataset.h"
#include "kith/train/data/sampler.h"
#include "kith/train/data_parallel.h"
#include "kith/train/models/model.h"
#include "kith/train/parameter_table.h"
#include "kith/train/run/model_pass.h"

namespace kith::train {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Adds up what the engine says about each bucket's mix and step.
class StepTimes final : public telemetry::Sink {
 public:
  void record(const telemetry::Event& event) override {
    if (event.category != "engine" || event.name != "mix + step") return;
    for (const auto& [name, value] : event.args) {
      if (name != "bucket") continue;
      const std::lock_guard lock(mutex_);
      seconds_[static_cast<std::size_t>(std::get<std::int64_t>(value))] += seconds(event.duration);
    }
  }
  void record(const telemetry::CounterSample&) override {}
  void flush() override {}

  std::map<std::size_t, double> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seconds_, {});
  }

 private:
  std::mutex mutex_;  // guards seconds_
  std::map<std::size_t, double> seconds_;
};

// When each bucket's last gradient of a backward pass is there.
class BackwardTimes {
 public:
  // On a GPU the host waits for it at the end of every bucket: else it would only see when work was handed
  // over.
  BackwardTimes(const torch::nn::Module& module, const engine::Engine& engine, const Clock& clock)
      : table_(module), clock_(clock), ready_(engine.buckets()) {
    for (std::size_t b = 0; b < engine.buckets(); ++b) {
      for (std::size_t segment : engine.bucket(b)) {
        if (!table_.tensor(segment).requires_grad()) continue;
        hooks_.push_back(std::make_unique<compat::GradientHook>(table_.tensor(segment), [this, b] {
          wait_for(table_.device());
          ready_[b] = clock_.now();
        }));
      }
    }
  }

  // Seconds of every bucket in a backward pass that began and ended at these times. Buckets lie in backward
  // order; one that was ready before its predecessor took no time of its own.
  std::vector<double> seconds_of(Clock::Time begin, Clock::Time end) {
    std::vector<double> times;
    Clock::Time last = begin;
    for (std::size_t b = 0; b < ready_.size(); ++b) {
      const Clock::Time now = b + 1 == ready_.size() ? end : std::max(last, ready_[b]);
      times.push_back(seconds(now - last));
      last = now;
    }
    return times;
  }

 private:
  ParameterTable table_;
  const Clock& clock_;
  std::vector<Clock::Time> ready_;
  std::vector<std::unique_ptr<compat::GradientHook>> hooks_;
};

class Profiler {
 public:
  Profiler(const Job& job, const Dataset& dataset, const engine::World& world, const ProfilerOptions& options)
      : job_(job),
        dataset_(dataset),
        world_(world),
        options_(options),
        device_(device_for(job, world)),
        current_device_(device_),
        traced_(world) {
    traced_.trace = &steps_;
  }

  JobTimes run() {
    JobTimes times = compute();
    add_mixing(times);
    take_out_batches(times);
    return times;
  }

 private:
  Options wrapper_options(const std::string& algorithm, const std::string& name) const {
    Options options = options_of(job_);
    options.name = name;
    options.algorithm = algorithm;
    options.topology = "ring";
    options.mix_every = 1;
    options.non_finite = NonFinite::use;
    return options;
  }

  SamplerOptions sampler_options() const {
    return {.samples = dataset_.train_samples(),
            .workers = world_.size(),
            .rank = world_.rank(),
            .batch = static_cast<std::uint64_t>(job_.train.batch),
            .seed = static_cast<std::uint64_t>(job_.train.seed)};
  }

  torch::Tensor loss(Model& model, Sampler& sampler) const {
    const std::uint64_t epoch = sampler.epoch();
    const Batch batch = dataset_.train(sampler.next(), epoch);
    return loss_of(job_, model, {batch.input.to(device_), batch.target.to(device_)});
  }

  Clock::Time device_done() const {
    wait_for(device_);
    return world_.clock->now();
  }

  // One step, without waiting for others, by bucket. What a GPU takes for it is dealt out by size.
  std::vector<double> step_seconds(DecentralizedDataParallel& model,
                                   const std::vector<BucketTimes>& buckets) {
    const Clock::Time start = device_done();
    const double waited = seconds(model.step().waited);
    const double whole = seconds(device_done() - start);
    const std::map<std::size_t, double> spans = steps_.take();
    double bytes = 0, in_spans = 0;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      bytes += buckets[b].bytes;
      in_spans += spans.contains(b) ? spans.at(b) : 0;
    }
    std::vector<double> times;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const double share = buckets[b].bytes / bytes;
      const double own = spans.contains(b) ? spans.at(b) : 0;
      times.push_back(device_.is_cpu() ? own - waited * own / in_spans : (whole - waited) * share);
    }
    return times;
  }

  JobTimes compute() {
    const auto model = model_on(device_, job_);
    DecentralizedDataParallel wrapped(model, traced_, wrapper_options("none", "profile/compute"));
    BackwardTimes backward(*model, wrapped.engine(), *world_.clock);
    Sampler sampler(sampler_options());
    JobTimes times;
    std::vector<double> computed;
    times.buckets.resize(wrapped.engine().buckets());
    const ParameterTable table(*model);
    for (std::size_t b = 0; b < times.buckets.size(); ++b) {
      for (std::size_t segment : wrapped.engine().bucket(b))
        times.buckets[b].bytes += 4.0 * static_cast<double>(table.tensor(segment).numel());
    }
    wrapped.barrier();
    for (int step = 0; step < options_.warm_up + options_.steps; ++step) {
      const bool counts = step >= options_.warm_up;
      const Clock::Time start = device_done();
      wrapped.zero_grad();
      for (std::int64_t i = 1; i < job_.train.accumulate; ++i) {
        const auto guard = wrapped.no_sync();
        loss(*model, sampler).backward();
      }
      torch::Tensor last = loss(*model, sampler);
      const Clock::Time forward_end = device_done();
      last.backward();
      const Clock::Time backward_end = device_done();
      const auto buckets = backward.seconds_of(forward_end, backward_end);
      const auto steps = step_seconds(wrapped, times.buckets);
      if (!counts) continue;
      computed.push_back(seconds(backward_end - start));
      times.forward_s.push_back(seconds(forward_end - start));
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        times.buckets[b].backward_s.push_back(buckets[b]);
        times.buckets[b].step_s.push_back(steps[b]);
      }
    }
    times.compute_s = wrapped.gather(mean(computed));
    return times;
  }

  // A step that mixes reads a neighbour's model besides; the gradients do not matter for its time.
  void add_mixing(JobTimes& times) {
    if (world_.size() < 2) return;
    const auto model = model_on(device_, job_);
    DecentralizedDataParallel wrapped(model, traced_, wrapper_options("awc", "profile/mix"));
    Sampler sampler(sampler_options());
    loss(*model, sampler).backward();
    std::vector<double> mixing_s;
    for (int step = 0; step < options_.warm_up + options_.steps; ++step) {
      const std::vector<double> own = step_seconds(wrapped, times.buckets);
      if (step >= options_.warm_up) mixing_s.push_back(std::accumulate(own.begin(), own.end(), 0.0));
    }
    double local_s = 0, bytes = 0;
    for (const BucketTimes& bucket : times.buckets) {
      local_s += mean(bucket.step_s);
      bytes += bucket.bytes;
    }
    const double more_s = std::max(0.0, mean(mixing_s) - local_s);
    for (BucketTimes& bucket : times.buckets) {
      for (double& sample : bucket.step_s)
        sample += more_s * bucket.bytes / bytes;
    }
  }

  static void take_out_batches(JobTimes& times) {
    std::vector<double> totals = times.forward_s;
    for (const BucketTimes& bucket : times.buckets) {
      for (std::size_t i = 0; i < totals.size(); ++i)
        totals[i] += bucket.backward_s[i];
    }
    const double typical = mean(totals);
    double squares = 0;
    for (double total : totals)
      squares += (total - typical) * (total - typical);
    times.batch_cv = std::sqrt(squares / static_cast<double>(totals.size())) / typical;
    for (std::size_t i = 0; i < totals.size(); ++i) {
      const double factor = typical / totals[i];
      times.forward_s[i] *= factor;
      for (BucketTimes& bucket : times.buckets)
        bucket.backward_s[i] *= factor;
    }
  }

  const Job& job_;
  const Dataset& dataset_;
  const engine::World& world_;
  const ProfilerOptions options_;
  const torch::Device device_;
  const c10::DeviceGuard current_device_;  // what torch does without a device in sight goes there too
  StepTimes steps_;
  engine::World traced_;
};

}  // namespace

JobTimes profile_job(const Job& job, const Dataset& dataset, const engine::World& world,
                     const ProfilerOptions& options) {
  if (options.steps < 1) throw InputError(cat(options.steps, " steps"), "profile", "at least 1");
  torch::set_num_threads(static_cast<int>(job.world.compute_threads));
  return Profiler(job, dataset, world, options).run();
}

}  // namespace kith::train

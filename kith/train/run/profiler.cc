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
#include "kith/comm/ledger.h"
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

// Messages that slow computing down by less are not told from chance.
constexpr double kSlowedDown = 1.02;

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

// One iteration, without waiting for others.
struct Iteration {
  double forward_s = 0;
  std::vector<double> backward_s;  // by bucket
  std::vector<double> step_s;      // by bucket
  double waited_s = 0;

  double computed_s() const { return std::accumulate(backward_s.begin(), backward_s.end(), forward_s); }
  double stepped_s() const { return std::accumulate(step_s.begin(), step_s.end(), 0.0); }
};

class Profiler {
 public:
  Profiler(const Job& job, const Dataset& dataset, const engine::WorldParts& world,
           const ProfilerOptions& options)
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
  // The job's model, trained by another algorithm than the job may name.
  struct Trial {
    std::shared_ptr<Model> model;
    DecentralizedDataParallel wrapped;
    BackwardTimes backward;
    Sampler sampler;
    std::vector<double> bytes;  // by bucket, as fp32

    Trial(std::shared_ptr<Model> of, const engine::WorldParts& world, const Options& options,
          const SamplerOptions& sampling)
        : model(std::move(of)),
          wrapped(model, world, options),
          backward(*model, wrapped.engine(), *world.clock),
          sampler(sampling) {
      const ParameterTable table(*model);
      for (std::size_t b = 0; b < wrapped.engine().buckets(); ++b) {
        bytes.push_back(0);
        for (std::size_t segment : wrapped.engine().bucket(b))
          bytes.back() += 4.0 * static_cast<double>(table.tensor(segment).numel());
      }
    }
  };

  std::unique_ptr<Trial> trial(const std::string& algorithm) const {
    Options options = options_of(job_);
    options.name = cat("profile/", algorithm);
    options.algorithm = algorithm;
    options.topology = "exp";  // of several machines' workers, most pairs are of two machines
    options.mix_every = 1;
    options.inside = "none";
    const SamplerOptions sampling{.samples = dataset_.train_samples(),
                                  .workers = world_.size(),
                                  .rank = world_.rank(),
                                  .batch = static_cast<std::uint64_t>(job_.train.batch),
                                  .seed = static_cast<std::uint64_t>(job_.train.seed)};
    return std::make_unique<Trial>(model_on(device_, job_), traced_, options, sampling);
  }

  torch::Tensor loss(Trial& trial) const {
    const std::uint64_t epoch = trial.sampler.epoch();
    const Batch batch = dataset_.train(trial.sampler.next(), epoch);
    return loss_of(job_, *trial.model, {batch.input.to(device_), batch.target.to(device_)});
  }

  Clock::Time device_done() const {
    wait_for(device_);
    return world_.clock->now();
  }

  // As training does it.
  Iteration iterate(Trial& trial) {
    Iteration now;
    const Clock::Time start = device_done();
    trial.wrapped.zero_grad();
    for (std::int64_t i = 1; i < job_.train.accumulate; ++i) {
      const auto guard = trial.wrapped.no_sync();
      loss(trial).backward();
    }
    torch::Tensor last = loss(trial);
    const Clock::Time forward_end = device_done();
    last.backward();
    const Clock::Time backward_end = device_done();
    now.forward_s = seconds(forward_end - start);
    now.backward_s = trial.backward.seconds_of(forward_end, backward_end);
    if (job_.train.clip > 0) trial.wrapped.clip_grad_norm(job_.train.clip);
    now.waited_s = seconds(trial.wrapped.step().waited);
    now.step_s = deal_out(seconds(device_done() - backward_end) - now.waited_s, trial.bytes);
    return now;
  }

  // A step by bucket: in the proportions of its spans, on a GPU, where these end too early, of its sizes.
  std::vector<double> deal_out(double step_s, const std::vector<double>& bytes) {
    const std::map<std::size_t, double> spans = steps_.take();
    std::vector<double> shares;
    for (std::size_t b = 0; b < bytes.size(); ++b)
      shares.push_back(device_.is_cpu() && spans.contains(b) ? spans.at(b) : bytes[b]);
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares)
      share *= step_s / all;
    return shares;
  }

  JobTimes compute() {
    const auto alone = trial("none");
    JobTimes times;
    std::vector<double> computed;
    for (double bytes : alone->bytes)
      times.buckets.push_back({bytes, {}, {}});
    alone->wrapped.barrier();
    for (int step = 0; step < options_.warm_up + options_.steps; ++step) {
      const Iteration now = iterate(*alone);
      if (step < options_.warm_up) continue;
      computed.push_back(now.computed_s());
      times.forward_s.push_back(now.forward_s);
      for (std::size_t b = 0; b < times.buckets.size(); ++b) {
        times.buckets[b].backward_s.push_back(now.backward_s[b]);
        times.buckets[b].step_s.push_back(now.step_s[b]);
      }
    }
    times.compute_s = alone->wrapped.gather(mean(computed));
    return times;
  }

  // A step that mixes reads a neighbour's model besides, and what travels between machines takes processor
  // time from forward and backward.
  void add_mixing(JobTimes& times) {
    if (world_.size() < 2) return;
    const auto mixing = trial("awc");
    std::vector<double> computed, stepped, waited;
    std::uint64_t sent_before = 0;
    for (int step = 0; step < options_.warm_up + options_.steps; ++step) {
      if (step == options_.warm_up) sent_before = comm::bytes_sent_across(world_.transport->ledger());
      const Iteration now = iterate(*mixing);
      if (step < options_.warm_up) continue;
      computed.push_back(now.computed_s());
      stepped.push_back(now.stepped_s());
      waited.push_back(now.waited_s);
    }
    const auto sent = static_cast<double>(comm::bytes_sent_across(world_.transport->ledger()) - sent_before);
    const auto of_all = [&](double own) { return mean(mixing->wrapped.gather(own)); };
    times.message_s_per_byte = message_cost({.alone_s = mean(times.compute_s),
                                             .mixing_s = of_all(mean(computed)),
                                             .waited_s = of_all(mean(waited)),
                                             .sent_bytes = of_all(sent / options_.steps)});
    double local_s = 0, bytes = 0;
    for (const BucketTimes& bucket : times.buckets) {
      local_s += mean(bucket.step_s);
      bytes += bucket.bytes;
    }
    const double more_s = std::max(0.0, mean(stepped) - local_s);
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
  const engine::WorldParts& world_;
  const ProfilerOptions options_;
  const torch::Device device_;
  const c10::DeviceGuard current_device_;  // what torch does without a device in sight goes there too
  StepTimes steps_;
  engine::WorldParts traced_;
};

}  // namespace

double message_cost(const MessageTimes& times) {
  if (times.sent_bytes == 0 || times.mixing_s < kSlowedDown * times.alone_s) return 0;
  const double under_computing = times.mixing_s / (times.mixing_s + times.waited_s);
  return (times.mixing_s - times.alone_s) / (times.sent_bytes * under_computing);
}

JobTimes profile_job(const Job& job, const Dataset& dataset, const engine::WorldParts& world,
                     const ProfilerOptions& options) {
  if (options.steps < 1) throw InputError(cat(options.steps, " steps"), "profile", "at least 1");
  torch::set_num_threads(static_cast<int>(job.world.compute_threads));
  return Profiler(job, dataset, world, options).run();
}

}  // namespace kith::train

// What it costs to tell: metrics and a Chrome trace, as a share of an iteration of 20 ms. Two workers,
// threads of this process, train two models in turn, step by step: one is recorded, the other is not. So both
// see the same machine, and the difference of their processor time is what recording costs. Forward and
// backward are the same in both, and vary by more than it: their own time is taken out.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <vector>

#include <time.h>

#include "bench/common/report.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/engine/engine.h"
#include "kith/gossip/consensus_sample.h"
#include "kith/launch/threads.h"
#include "kith/telemetry/file_sink.h"
#include "kith/telemetry/span.h"
#include "kith/train/run/recorder.h"

namespace kith::bench {
namespace {

constexpr double kIteration = 0.020;  // seconds
constexpr std::size_t kSegments = 16;
constexpr std::size_t kElements = std::size_t{1} << 16;  // of a segment: a million parameters in all
constexpr double kMostShare = 0.01;

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Forward and backward, as far as a processor is concerned.
class Compute {
 public:
  // Its processor time.
  double run(std::int64_t passes) {
    const double start = cpu_seconds();
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      for (float& x : values_)
        x = 0.999F * x + 0.001F;
    }
    return cpu_seconds() - start;
  }
  std::int64_t passes_for(double seconds) { return static_cast<std::int64_t>(2000 * seconds / run(2000)); }
  float sum() const { return values_.front(); }

 private:
  std::vector<float> values_ = std::vector<float>(16 * 1024, 1);
};

// A model with gradients that are there already.
class Model {
 public:
  Model(const engine::WorldParts& world, const std::string& name) : world_(world) {
    engine::EngineOptions options;
    options.name = name;
    options.algorithm = "awc";
    options.optimizer.name = "sgd";
    options.schedule.topology = "ring";
    options.schedule.shape = graph::Shape::single_node(world.size());
    std::vector<engine::Segment> segments;
    for (std::size_t k = 0; k < kSegments; ++k) {
      parameters_.emplace_back(kElements, 1.0F);
      gradients_.emplace_back(kElements, 0.001F);
      segments.push_back({cat("p", k), parameters_[k].data(), kElements, DType::f32, k});
      inputs_.push_back({gradients_[k].data(), DType::f32, 0.1, 0});
    }
    engine_ = std::make_unique<engine::Engine>(world_, options, segments);
    engine_->start();
  }

  engine::StepReport step() { return engine_->step(inputs_, {}); }
  std::size_t buckets() const { return engine_->buckets(); }

 private:
  const engine::WorldParts world_;
  std::vector<std::vector<float>> parameters_, gradients_;
  std::vector<engine::SegmentInput> inputs_;
  std::unique_ptr<engine::Engine> engine_;
};

telemetry::Span span(const engine::WorldParts& world, const char* name) {
  return {world.trace, *world.clock, {.name = name, .category = "train", .worker = world.self()}};
}

// What the estimate of the consensus distance costs a step of that many buckets; both models pay it.
double sampling_seconds(std::size_t buckets) {
  const std::vector<float> own(kSegments * kElements, 1), other(kSegments * kElements, 2);
  const gossip::SampledVector theirs{other.data(), DType::f32};
  const double start = cpu_seconds();
  constexpr int kTimes = 200;
  double sum = 0;
  for (int k = 0; k < kTimes; ++k) {
    for (std::size_t b = 0; b < buckets; ++b) {
      gossip::ConsensusSample each;
      sum += gossip::sample_consensus({own.data(), DType::f32}, {&theirs, 1}, own.size() / buckets,
                                      static_cast<std::uint64_t>(k), {&each, 1})
                 .squares;
    }
  }
  const double seconds = (cpu_seconds() - start) / kTimes;
  return sum > 0 ? seconds : 0;
}

struct Samples {
  std::mutex mutex;
  std::vector<double> more;  // seconds of an iteration with telemetry than of one without; guarded by mutex
  std::vector<double> seconds;  // of iterations without telemetry; guarded by mutex
  double sampling = 0;          // seconds of the consensus estimate; guarded by mutex
};

void work(const launch::World& joined, const TempFolder& folder, int pairs, Samples& out) {
  engine::WorldParts plain = engine::seen_by_engine(joined), traced = plain;
  const auto trace =
      telemetry::make_chrome_trace_sink({.path = cat(folder.path(), "/trace-", plain.self().value)});
  traced.trace = trace.get();
  Model silent(plain, "silent"), told(traced, "told");
  train::Recorder recorder(traced,
                           {.file = cat(folder.path(), "/worker-", plain.self().value, "/metrics.jsonl"),
                            .parameters = static_cast<std::int64_t>(kSegments * kElements),
                            .unit = "sample",
                            .units_per_step = 1,
                            .environment = {}});
  const double sampling = sampling_seconds(silent.buckets());
  Compute compute;
  const std::int64_t passes = compute.passes_for(kIteration);
  struct Times {
    double all = 0, computing = 0;
    double besides() const { return all - computing; }
  };
  const auto iterate = [&](Model& model, const engine::WorldParts& world) {
    const double start = cpu_seconds();
    double computing = 0;
    const bool tells = world.trace != nullptr;
    if (tells) recorder.begin_step();
    {
      const auto iteration = span(world, "iteration");
      {
        const auto forward = span(world, "forward");
        computing += compute.run(passes / 2);
      }
      {
        const auto backward = span(world, "backward");
        computing += compute.run(passes - passes / 2);
      }
      const engine::StepReport report = model.step();
      if (tells) {
        train::StepMetrics metrics;
        metrics.loss = compute.sum();
        recorder.end_step(metrics, report);
        recorder.write(metrics);
      }
    }
    return Times{cpu_seconds() - start, computing};
  };
  std::vector<double> more, seconds;
  for (int pair = -5; pair < pairs; ++pair) {  // the first ones warm up
    const bool told_first = pair % 2 == 0;
    const Times first = told_first ? iterate(told, traced) : iterate(silent, plain);
    const Times second = told_first ? iterate(silent, plain) : iterate(told, traced);
    if (pair < 0) continue;
    const Times &off = told_first ? second : first, &on = told_first ? first : second;
    more.push_back(on.besides() - off.besides() + sampling);  // which both have
    seconds.push_back(off.all - sampling);
  }
  const std::lock_guard lock(out.mutex);
  out.sampling = sampling;
  out.more.insert(out.more.end(), more.begin(), more.end());
  out.seconds.insert(out.seconds.end(), seconds.begin(), seconds.end());
}

int run(int argc, char** argv) {
  const Options options =
      parse(argc, argv, "telemetry", "What metrics and traces cost an iteration of 20 ms");
  const TempFolder folder("kith-bench-telemetry");
  Samples samples;
  launch::run_threads(
      2, [&](const launch::World& world) { work(world, folder, options.quick ? 150 : 600, samples); });
  const Summary more = summarise(samples.more), iteration = summarise(samples.seconds);
  std::printf("iteration %.2f ms of processor time, of two workers with %.1f M parameters\n",
              1e3 * iteration.median, static_cast<double>(kSegments * kElements) / 1e6);
  std::printf("metrics, trace and consensus estimate: +%.0f us (10%% to 90%% of pairs: %+.0f to %+.0f us)\n",
              1e6 * more.median, 1e6 * more.low, 1e6 * more.high);
  std::printf("of it the consensus estimate: %.1f us\n", 1e6 * samples.sampling);
  Report report("telemetry");
  report.measure("iteration", iteration, "s");
  report.measure("more", more, "s");
  report.at_most("telemetry.share_of_20_ms", more.median / kIteration, kMostShare);
  return report.finish(options);
}

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  return kith::bench::run(argc, argv);
}

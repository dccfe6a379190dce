#include "kith/train/study/trial.h"

#include <algorithm>
#include <cmath>

#include "kith/base/text.h"
#include "kith/engine/engine.h"
#include "kith/launch/threads.h"
#include "kith/optim/algorithm.h"

namespace kith::train::study {
namespace {

constexpr double kLastRate = 0.01;           // of the first
constexpr double kBehindBackward = 2.0 / 3;  // all-reduce hides behind backward
constexpr double kDiverged = 10;

engine::EngineOptions engine_options(const Entry& entry, const TrialOptions& options) {
  engine::EngineOptions engine;
  engine.algorithm = entry.algorithm;
  engine.method = entry.method;
  engine.optimizer.name = entry.optimizer;
  engine.optimizer.momentum = entry.optimizer == "sgd" ? 0.9 : 0;
  engine.optimizer.beta2 = 0.99;
  engine.codec = entry.codec;
  engine.wire = entry.wire;
  engine.trigger = entry.trigger;
  engine.schedule = {.topology = entry.topology, .shape = graph::Shape::single_node(options.workers)};
  return engine;
}

// What the rounds of a step cost beside what is read.
struct Cost {
  optim::Exchange exchange;
  int channels = 0;         // one after the other
  double overlap = 0;       // share of the computing that messages may hide behind
  double vector_bytes = 0;  // in full
  const graph::Schedule* schedule;

  // Received in a step, where a group of more than two averages; nothing: what was read is what is received.
  std::optional<double> group_bytes(int rounds, int workers, Rank rank, std::int64_t round) const {
    const auto shared = [&](int members) { return 2.0 * (members - 1) / members * vector_bytes; };
    if (exchange == optim::Exchange::gradients) return shared(workers);
    if (exchange == optim::Exchange::nothing || rounds == 0) return 0;
    const graph::WorkerRound now = schedule->round(rank, round);
    if (now.form != graph::Form::group || now.group.size() <= 2) return {};
    return rounds * channels * shared(static_cast<int>(now.group.size()));
  }
};

// One worker's part of a trial.
class Worker {
 public:
  Worker(const launch::World& world, const Problem& problem, const Entry& entry, const TrialOptions& options)
      : problem_(problem),
        options_(options),
        parts_(problem.parts()),
        model_(problem.start()),
        gradient_(model_.size()),
        mean_(model_.size()),
        engine_(engine::seen_by_engine(world), engine_options(entry, options), segments()) {}

  engine::Engine& engine() { return engine_; }

  engine::StepReport step(int rank, std::int64_t t) {
    std::vector<const float*> model;
    for (std::size_t k = 0; k < parts_.size(); ++k)
      model.push_back(static_cast<const float*>(engine_.data(k)));
    const std::vector<float*> gradient = places(gradient_);
    problem_.gradient(rank, t, model, gradient);
    const double way = static_cast<double>(t) / static_cast<double>(options_.steps);
    const double lr = options_.lr * std::lerp(1.0, kLastRate, way);
    std::vector<engine::SegmentInput> inputs;
    for (const float* const part : gradient)
      inputs.push_back({part, DType::f32, lr, 0});
    return engine_.step(inputs, {});
  }

  // The mean model; returns the consensus distance.
  double average() {
    const std::vector<float*> to = places(mean_);
    return engine_.average(std::vector<void*>(to.begin(), to.end()));
  }
  Score score() {
    const std::vector<float*> mean = places(mean_);
    return problem_.score(std::vector<const float*>(mean.begin(), mean.end()));
  }

 private:
  std::vector<float*> places(std::vector<float>& vector) const {
    std::vector<float*> all;
    std::size_t first = 0;
    for (const std::size_t part : parts_) {
      all.push_back(vector.data() + first);
      first += part;
    }
    return all;
  }
  std::vector<engine::Segment> segments() {
    std::vector<engine::Segment> all;
    const std::vector<float*> at = places(model_);
    for (std::size_t k = 0; k < parts_.size(); ++k)
      all.push_back({cat("part", k), at[k], parts_[k], DType::f32, parts_[k]});
    return all;
  }

  const Problem& problem_;
  const TrialOptions& options_;
  const std::vector<std::size_t> parts_;
  std::vector<float> model_, gradient_, mean_;
  engine::Engine engine_;
};

Cost cost_of(const Entry& entry, const Problem& problem, const graph::Schedule& schedule) {
  const auto algorithm = optim::make_algorithm<float>(entry.algorithm, entry.method);
  const auto channels = algorithm->channels();
  const bool hides = !channels.empty() && channels.front().is_model;
  double bytes = 0;
  for (const std::size_t part : problem.parts())
    bytes += static_cast<double>(bytes_of(entry.wire.value_or(DType::f32), part));
  const bool reduces = algorithm->exchange() == optim::Exchange::gradients;
  return {algorithm->exchange(), static_cast<int>(channels.size()),
          reduces ? kBehindBackward
          : hides ? 1.0
                  : 0.0,
          bytes, &schedule};
}

}  // namespace

double NetworkModel::step_s(int messages, double bytes, double overlap) const {
  const double travel = messages * latency_s + bytes / bytes_per_s;
  return compute_s + std::max(0.0, travel - overlap * compute_s);
}

Trial run_trial(const Problem& problem, const Entry& entry, const TrialOptions& options) {
  const engine::EngineOptions checked = engine_options(entry, options);
  engine::validate(checked);
  const auto schedule = graph::make_schedule(checked.schedule);
  const Cost cost = cost_of(entry, problem, *schedule);
  Trial trial;
  StderrLog log("kith", LogLevel::error);  // workers that share cores wait for each other all the time
  launch::run_threads(
      options.workers,
      [&](const launch::World& world) {
        Worker worker(world, problem, entry, options);
        worker.engine().start();
        double bytes = 0, modelled = 0;
        std::int64_t rounds = 0;
        const auto look = [&](std::int64_t steps) {
          const double distance = worker.average();
          std::vector<double> sums{bytes, modelled, 0};
          if (world.rank() == 0) {
            const Score score = worker.score();
            trial.points.push_back({steps, 0, 0, score, distance});
            const double first = trial.points.front().score.loss;
            if (!std::isfinite(score.loss) || score.loss > kDiverged * std::max(first, 1.0))
              trial.diverged = true;
            sums[2] = trial.diverged ? 1 : 0;
          }
          worker.engine().mean(sums);
          if (world.rank() == 0) {
            trial.points.back().bytes = sums[0];
            trial.points.back().modelled_s = sums[1];
          }
          return sums[2] > 0;  // all stop together
        };
        bool stop = look(0);
        for (std::int64_t t = 0; t < options.steps && !stop; ++t) {
          const engine::StepReport report = worker.step(world.rank(), t);
          const auto group = cost.group_bytes(report.rounds, options.workers, world.rank(), rounds);
          const double received = group.value_or(static_cast<double>(report.bytes_read));
          const int messages =
              cost.exchange == optim::Exchange::gradients ? 2 : report.rounds * cost.channels;
          bytes += received;
          modelled += options.network.step_s(messages, received, cost.overlap);
          rounds += report.rounds;
          if ((t + 1) % options.score_every == 0 || t + 1 == options.steps) stop = look(t + 1);
        }
      },
      &log);
  return trial;
}

}  // namespace kith::train::study

// When workers mix and how many rounds, where measurements decide: triggers by the clock and by the distance,
// and consensus control (arXiv 2102.04828) with its acceptance facts.
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/engine/measured_pace.h"
#include "kith/graph/matrix.h"
#include "tests/engine/method_support.h"

namespace kith::engine {
namespace {

using plain::Vector;

// What happened in a step.
struct Seen {
  int rounds = 0;
  bool capped = false;
  double distance = 0;  // after it, exactly
  double theta = 0;     // root mean square over the workers, of the first round
};

class LinesLog final : public Log {
 public:
  void write(LogLevel, std::string_view line) override {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

struct Course {
  std::vector<Seen> steps;       // rank 0's
  std::vector<Vector> models;    // by rank
  std::vector<std::string> log;  // of all workers
};

// Noisy gradients around targets of everybody's own: models are pulled apart in every step.
Course run(const EngineOptions& options, int workers, int steps, double lr = 0.1,
           std::chrono::microseconds pause = {}) {
  Course result;
  result.steps.resize(static_cast<std::size_t>(steps));
  result.models.resize(static_cast<std::size_t>(workers));
  LinesLog log;
  support::run_world("inproc", workers, [&](support::Worker& worker) {
    const SteadyClock clock;
    const WorldParts world{
        &worker.transport, &worker.store, Members::first(worker.size), &clock, &log, nullptr};
    EngineOptions own = options;
    own.schedule.shape = graph::Shape::single_node(workers);
    own.patience = std::chrono::seconds(30);
    Vector parameter(kElements, 0.5);
    Engine engine(world, own, {{"a", parameter.data(), kElements, DType::f64, kElements}});
    engine.start();
    const Vector target = target_of(worker.rank);
    for (int t = 0; t < steps; ++t) {
      Rng rng(hash_words(41, worker.rank, t));
      Vector gradient(kElements);
      for (std::size_t e = 0; e < kElements; ++e)
        gradient[e] = static_cast<const double*>(engine.data(0))[e] - target[e] + rng.normal();
      const std::vector<SegmentInput> inputs{{gradient.data(), DType::f64, lr, 0}};
      const StepReport report = engine.step(inputs, {});
      EXPECT_TRUE(report.late.empty() && report.lost.empty());
      Seen seen{report.rounds, report.capped, engine.consensus_distance(), 0};
      for (const double moved : engine.gather(report.consensus.moved))
        seen.theta += moved / workers;
      seen.theta = std::sqrt(seen.theta);
      if (worker.rank == 0) result.steps[static_cast<std::size_t>(t)] = seen;
      for (const double rounds : engine.gather(report.rounds))
        EXPECT_EQ(rounds, report.rounds) << "step " << t;
      std::this_thread::sleep_for(pause);
    }
    const auto* const data = static_cast<const double*>(engine.data(0));
    result.models[static_cast<std::size_t>(worker.rank)].assign(data, data + kElements);
    return std::string();
  });
  result.log = log.lines();
  return result;
}

EngineOptions controlled(const std::string& control, int cap, const std::string& topology = "ring-static") {
  EngineOptions options = options_for("dsgd", "sgd", topology);
  options.optimizer.momentum = 0;
  options.bucket_bytes = 1 << 20;
  options.control = control;
  options.method.rounds = cap;
  return options;
}

double lambda_of(const std::string& topology, int workers) {
  graph::ScheduleOptions options{.topology = topology, .shape = graph::Shape::single_node(workers)};
  return bounds_of(*graph::make_schedule(options)).contraction;
}

// Fact 2: ring with weights 1/3, rounds that shrink any distance by 4.
TEST(ConsensusControl, RoundsToAQuarterAreTheClosedFormsOfTheRing) {
  for (const auto& [workers, lambda, rounds] :
       {std::tuple{8, 0.8047, 7}, {16, 0.9493, 27}, {32, 0.9872, 108}, {64, 0.9968, 432}}) {
    const double found = lambda_of("ring-static", workers);
    EXPECT_NEAR(found, lambda, 6e-5) << workers;
    EXPECT_LE(std::ceil(std::log(0.25) / std::log(found)), rounds) << workers;
    // A distance of 3 that was found before mixing, and 1 that is left from before.
    EXPECT_EQ(optim::rounds_for(1, 3, found), std::ceil(std::log(0.25) / std::log(found))) << workers;
  }
}

// Fact 1, the meter: Theta / 2 <= distance before the mix <= Theta / (1 - lambda_2), on static graphs.
TEST(ConsensusMeter, TheCheapOneBoundsTheExactOneOnStaticGraphs) {
  for (const char* topology : {"ring-static", "exp-static", "complete", "sun"}) {
    constexpr int kWorkers = 9;
    EngineOptions options = options_for("awc", "sgd", topology);
    options.optimizer.momentum = 0;
    options.bucket_bytes = 1 << 20;
    const RoundBounds bounds = bounds_of(
        *graph::make_schedule({.topology = topology, .shape = graph::Shape::single_node(kWorkers)}));
    ASSERT_TRUE(bounds.all_alike) << topology;
    // With awc a step mixes the models that the step before left.
    const Course seen = run(options, kWorkers, 40);
    for (std::size_t t = 1; t < seen.steps.size(); ++t) {
      const double before = seen.steps[t - 1].distance, theta = seen.steps[t].theta;
      ASSERT_GT(before, 0) << topology;
      EXPECT_LE(theta / 2, before * (1 + 1e-9)) << topology << ", step " << t;
      EXPECT_GE(theta / (1 - bounds.contraction), before * (1 - 1e-9)) << topology << ", step " << t;
    }
  }
}

// One round of pairs moves nothing where the partners agree, however far the pairs are apart.
TEST(ConsensusMeter, ARoundOfPairsBoundsNothing) {
  const auto pairs = graph::make_schedule({.topology = "matching", .shape = graph::Shape::single_node(8)});
  EXPECT_FALSE(bounds_of(*pairs).all_alike);
  const auto ring = graph::make_schedule({.topology = "ring", .shape = graph::Shape::single_node(8)});
  ASSERT_FALSE(bounds_of(*ring).all_alike);
  const Eigen::MatrixXd w = graph::mixing_matrix(*ring, 0);
  Eigen::VectorXd x(8);
  for (Eigen::Index i = 0; i < 8; ++i) {
    for (Eigen::Index j = 0; j < i; ++j)
      if (w(i, j) > 0) x(i) = x(j);  // with its partner
    if ((w.row(i).head(i).array() == 0).all()) x(i) = static_cast<double>(i);
  }
  EXPECT_LT((w * x - x).norm(), 1e-12);
  EXPECT_GT((x.array() - x.mean()).matrix().norm(), 1);
}

// Fact 1, the controller: after every step the distance is at most the target, or the cap was hit, and the
// log says so.
TEST(ConsensusControl, HonoursItsTargetInEveryStep) {
  const Course loose = run(controlled("none", 1), 8, 60);
  double reference = 0;
  for (std::size_t t = 20; t < loose.steps.size(); ++t)
    reference += loose.steps[t].distance / 40;
  EXPECT_GT(reference, 0);
  double last = 1e9;
  for (const double share : {1.0, 0.5, 0.25}) {
    const Course seen = run(controlled(cat("share ", share, " of ", reference), 60), 8, 60);
    double mean = 0;
    for (std::size_t t = 0; t < seen.steps.size(); ++t) {
      EXPECT_TRUE(seen.steps[t].distance <= share * reference || seen.steps[t].capped)
          << "share " << share << ", step " << t << ": " << seen.steps[t].distance << " after "
          << seen.steps[t].rounds << " rounds";
      EXPECT_FALSE(seen.steps[t].capped);
      mean += seen.steps[t].distance / static_cast<double>(seen.steps.size());
    }
    EXPECT_LT(mean, last) << "a smaller share keeps models nearer";
    EXPECT_GT(seen.steps.back().rounds, 1);
    EXPECT_LT(seen.steps.back().rounds, 60) << "no more rounds than it takes";
    last = mean;
  }
}

TEST(ConsensusControl, ACapIsReportedAndLogged) {
  const Course seen = run(controlled("distance 1e-9", 3), 8, 12);
  for (std::size_t t = 3; t < seen.steps.size(); ++t) {
    EXPECT_EQ(seen.steps[t].rounds, 3);
    EXPECT_TRUE(seen.steps[t].capped);
  }
  const auto about = [](const std::string& line) { return line.find("3 rounds") != std::string::npos; };
  EXPECT_EQ(std::ranges::count_if(seen.log, about), 1) << "once, by one worker, for the whole streak";
}

// The cross-checks: no target is plain DSGD, a target of zero on a complete graph is all-reduce SGD.
TEST(ConsensusControl, WithoutATargetIsPlainDsgd) {
  const Course plain_run = run(controlled("", 1), 6, 20);
  for (const char* control : {"none", "distance inf"})
    EXPECT_EQ(run(controlled(control, 5), 6, 20).models, plain_run.models) << control;
}

TEST(ConsensusControl, ATargetOfZeroOnACompleteGraphIsAllReduce) {
  const Course seen = run(controlled("distance 0", 2, "complete"), 5, 15);
  EngineOptions all = options_for("allreduce", "sgd", "complete");
  all.optimizer.momentum = 0;
  const Course reduced = run(all, 5, 15);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_LT(largest_difference(seen.models[i], reduced.models[i]), 1e-12);
  for (const Seen& step : seen.steps)
    EXPECT_LT(step.distance, 1e-12);
}

// A target that goes with the updates falls as the rate does; phases hold from their step on.
TEST(ConsensusControl, FollowsTheUpdateAndThePhases) {
  const EngineOptions options = controlled("from 0 update 0.5, from 20 none, from 40 update 0.5", 40);
  const Course coarse = run(options, 8, 60, 0.2), fine = run(options, 8, 60, 0.02);
  for (const Course* seen : {&coarse, &fine}) {
    for (std::size_t t = 22; t < 40; ++t)
      EXPECT_EQ(seen->steps[t].rounds, 1) << t;
    for (std::size_t t = 44; t < 60; ++t)
      EXPECT_GT(seen->steps[t].rounds, 1) << t;
  }
  EXPECT_LT(5 * fine.steps.back().distance, coarse.steps.back().distance);
}

// As exact as a plain loop with as many rounds in each step: what was decided is what is computed.
TEST(ConsensusControl, ComputesTheRoundsThatItReports) {
  constexpr int kWorkers = 6, kSteps = 15;
  const Course seen = run(controlled("distance 0.4", 12), kWorkers, kSteps);
  const Eigen::MatrixXd w = graph::mixing_matrix(
      *graph::make_schedule({.topology = "ring-static", .shape = graph::Shape::single_node(kWorkers)}), 0);
  Eigen::MatrixXd x = Eigen::MatrixXd::Constant(kWorkers, kElements, 0.5);
  std::map<int, int> counts;
  for (int t = 0; t < kSteps; ++t) {
    for (int i = 0; i < kWorkers; ++i) {
      Rng rng(hash_words(41, i, t));
      const Vector target = target_of(i);
      for (std::size_t e = 0; e < kElements; ++e) {
        double& value = x(i, static_cast<Eigen::Index>(e));
        value -= 0.1 * (value - target[e] + rng.normal());
      }
    }
    const int rounds = seen.steps[static_cast<std::size_t>(t)].rounds;
    ++counts[rounds];
    for (int k = 0; k < rounds; ++k)
      x = w * x;
  }
  EXPECT_GT(counts.size(), 1U) << "the rounds differ from step to step";
  for (int i = 0; i < kWorkers; ++i) {
    for (std::size_t e = 0; e < kElements; ++e)
      EXPECT_NEAR(seen.models[static_cast<std::size_t>(i)][e], x(i, static_cast<Eigen::Index>(e)), 1e-12);
  }
}

// ---- triggers that go by measurements

// Steps of 2 ms or more, mixing about every 40: everybody agrees on each (checked in run()).
TEST(MeasuredTrigger, FiresByTheClock) {
  EngineOptions options = options_for("atc", "sgd", "ring-static");
  options.trigger = "every 0.04 s";
  const Clock::Time begin = SteadyClock().now();
  const Course seen = run(options, 3, 150, 0.1, std::chrono::milliseconds(2));
  const double took = seconds(SteadyClock().now() - begin);
  const auto fired = std::ranges::count_if(seen.steps, [](const Seen& step) { return step.rounds > 0; });
  EXPECT_GE(fired, 4);
  EXPECT_LE(static_cast<double>(fired), took / 0.04 + 4) << took << " s";
  EXPECT_LT(fired, 75) << "mostly it does not mix";
}

// The intervals settle where the distance before mixing is about what was asked for.
TEST(MeasuredTrigger, FiresByTheDistance) {
  EngineOptions options = options_for("atc", "sgd", "complete");
  options.optimizer.momentum = 0;
  options.bucket_bytes = 1 << 20;
  options.trigger = "distance 3 cap 50";
  const Course seen = run(options, 4, 150, 0.02);
  std::vector<double> before;
  for (std::size_t t = 60; t < seen.steps.size(); ++t)
    if (seen.steps[t].rounds > 0) before.push_back(seen.steps[t - 1].distance);
  ASSERT_GE(before.size(), 2U);
  for (const double distance : before) {
    EXPECT_GT(distance, 1.5);
    EXPECT_LT(distance, 4.5);
  }
  options.trigger = "distance 1e6 cap 7";
  const Course far = run(options, 4, 40, 0.02);
  EXPECT_EQ(std::ranges::count_if(far.steps, [](const Seen& step) { return step.rounds > 0; }), 8)
      << "at once, and then twice as late each time, up to the cap";
}

TEST(MeasuredPace, ResumesWithTheSameBits) {
  EngineOptions options = controlled("from 0 distance 0.5, from 8 update 0.7", 9);
  options.trigger = "every 2";
  const auto straight = train<double>("inproc", 4, options, 14);
  std::vector<std::map<std::string, std::vector<std::byte>>> saved(4);
  support::run_world("inproc", 4, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options);
    quadratic.engine().start();
    for (int t = 0; t < 8; ++t)
      quadratic.step();
    for (const StateSpan& span : quadratic.engine().state())
      saved[static_cast<std::size_t>(worker.rank)].emplace(
          span.name, std::vector<std::byte>(span.bytes.begin(), span.bytes.end()));
    return std::string();
  });
  const auto resumed = support::run_world("inproc", 4, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options);
    quadratic.engine().restore(8);
    for (const StateSpan& span : quadratic.engine().state()) {
      const auto& bytes = saved[static_cast<std::size_t>(worker.rank)].at(span.name);
      std::memcpy(span.bytes.data(), bytes.data(), bytes.size());
    }
    quadratic.engine().resume();
    for (int t = 8; t < 14; ++t)
      quadratic.step();
    return text_of(quadratic.model());
  });
  EXPECT_EQ(resumed, straight);
}

// Zeros are what other workers begin with; anything else must fit.
TEST(MeasuredPace, BeginsAnewFromZerosAndRefusesDamage) {
  support::run_world("inproc", 2, [&](support::Worker& worker) {
    EngineOptions options = controlled("distance 0.5", 4, "complete");
    const auto resume = [&](std::byte filled) {
      options.name = cat("filled with ", static_cast<int>(filled));
      Quadratic<double> quadratic(worker, options);
      quadratic.engine().restore(8);
      for (const StateSpan& span : quadratic.engine().state()) {
        if (span.name.ends_with("/pace")) std::ranges::fill(span.bytes, filled);
      }
      quadratic.engine().resume();
      EXPECT_EQ(quadratic.step().rounds, 4) << "nothing is known yet";
      EXPECT_EQ(quadratic.step().step, 9);
    };
    resume(std::byte{0});
    EXPECT_THROW(resume(std::byte{1}), InputError);
    return std::string();
  });
}

TEST(MeasuredPace, ALostWorkerEndsTheStepThatNeedsItsWord) {
  const auto texts = support::run_world("inproc", 3, [&](support::Worker& worker) {
    EngineOptions options = controlled("distance 0.5", 4, "complete");
    Quadratic<double> quadratic(worker, options);
    quadratic.engine().start();
    for (int t = 0; t < 3; ++t)
      quadratic.step();
    if (worker.rank == 2) return std::string("left");
    try {
      for (int t = 3; t < 20; ++t)
        quadratic.step();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("went on");
  });
  for (const int rank : {0, 1})
    EXPECT_NE(texts[static_cast<std::size_t>(rank)].find("agreeing on when to mix"), std::string::npos)
        << texts[static_cast<std::size_t>(rank)];
}

TEST(MeasuredPace, RefusesWhatCannotWork) {
  const auto problem = [](const EngineOptions& options) {
    try {
      validate(options);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(problem(controlled("distance 0.5", 4)), "");
  for (const char* text : {"0.5", "distance", "share 2", "distance -1", "from 3", "update x",
                           "distance 1, distance 2", "from 5 none, from 5 none"})
    EXPECT_NE(problem(controlled(text, 4)).find("control"), std::string::npos) << text;
  EngineOptions options = controlled("distance 0.5", 1);
  options.algorithm = "sgp";
  EXPECT_NE(problem(options).find("mc-dsgt"), std::string::npos);
  options = controlled("distance 0.5", 2);
  options.codec = "int8";
  EXPECT_NE(problem(options).find("codec"), std::string::npos);
  options = controlled("distance 0.5", 2);
  options.reforms = true;
  EXPECT_NE(problem(options).find("on_lost"), std::string::npos);
  options = options_for("diloco", "sgd", "complete");
  options.trigger = "distance 1 cap 5";
  EXPECT_NE(problem(options).find("distance"), std::string::npos);
  options.trigger = "every 3 s";
  EXPECT_EQ(problem(options), "");
}

}  // namespace
}  // namespace kith::engine

#include "kith/engine/engine.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "kith/engine/model_cut.h"
#include "kith/graph/matrix.h"
#include "kith/graph/stagger.h"
#include "tests/engine/engine_support.h"

namespace kith::engine {
namespace {

struct Case {
  std::string algorithm, optimizer, topology;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* algorithm : {"awc", "atc", "dsgt", "sgp", "allreduce", "none"}) {
    for (const std::string& optimizer : optim::optimizer_names()) {
      all.push_back({algorithm, optimizer, std::string(algorithm) == "sgp" ? "exp-directed" : "exp"});
    }
  }
  return all;
}

class EveryAlgorithm : public testing::TestWithParam<Case> {};

TEST_P(EveryAlgorithm, ProcessesGiveTheBitsOfThreads) {
  const EngineOptions options = options_for(GetParam().algorithm, GetParam().optimizer, GetParam().topology);
  EXPECT_EQ(train<float>("shm", 3, options, 12), train<float>("inproc", 3, options, 12));
}

TEST_P(EveryAlgorithm, BucketSizeDoesNotChangeTheBits) {
  EngineOptions small = options_for(GetParam().algorithm, GetParam().optimizer, GetParam().topology);
  EngineOptions one = small;
  one.bucket_bytes = 1 << 20;
  EXPECT_EQ(train<double>("inproc", 4, small, 9), train<double>("inproc", 4, one, 9));
}

INSTANTIATE_TEST_SUITE_P(Engine, EveryAlgorithm, testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.algorithm + "_" + test.param.optimizer;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Also for all-reduce, whose buckets are averaged when all of their gradients are there.
TEST(Layouts, SplitParametersGiveTheSameBits) {
  for (const char* algorithm : {"awc", "dsgt", "allreduce", "none"}) {
    EngineOptions whole = options_for(algorithm, "adamw", "exp");
    EngineOptions split = whole;
    split.cut = {{{3, 16}, {2, 13}}, {{2, 20}}, {{2, 7}, {1, 1}, {0, 7}}};
    EXPECT_EQ(train<double>("inproc", 4, split, 9), train<double>("inproc", 4, whole, 9)) << algorithm;
  }
}

TEST(Layouts, StagedAndAlternatingGiveTheSameBits) {
  EngineOptions alternating = options_for("awc", "accum-adamw", "ring");
  alternating.layout = Layout::alternating;
  EngineOptions staged = alternating;
  staged.layout = Layout::staged;
  EXPECT_EQ(train<float>("inproc", 4, alternating, 11), train<float>("inproc", 4, staged, 11));
}

TEST(Layouts, AlternatingMovesBetweenTwoPlacesAndStagedStays) {
  support::run_world("inproc", 2, [](support::Worker& worker) {
    EngineOptions options = options_for("awc", "adam", "complete");
    Quadratic<float> moving(worker, options);
    EXPECT_EQ(moving.engine().layout(), Layout::alternating);
    moving.engine().start();
    void* const first = moving.engine().data(0);
    moving.step();
    void* const second = moving.engine().data(0);
    moving.step();
    EXPECT_NE(first, second);
    EXPECT_EQ(first, moving.engine().data(0));
    std::vector<void*> places = moving.engine().places(0);
    EXPECT_EQ(places.size(), 2u);
    EXPECT_TRUE((places[0] == first && places[1] == second) || (places[1] == first && places[0] == second));

    options.layout = Layout::staged;
    options.name = "other";  // two engines in one world
    Quadratic<float> resting(worker, options);
    resting.engine().start();
    void* const place = resting.engine().data(0);
    resting.step();
    EXPECT_EQ(place, resting.engine().data(0));
    return std::string();
  });
}

// 24 bytes for accumulated Adam in fp32: two slots, two moments, the accumulator, and the gradient that is
// the model's own.
TEST(Layouts, AlternatingAccumAdamNeedsTwentyBytesBesideTheGradient) {
  support::run_world("inproc", 2, [](support::Worker& worker) {
    EngineOptions options = options_for("awc", "accum-adam", "complete");
    options.bucket_bytes = 1 << 20;
    Quadratic<float> quadratic(worker, options, {1 << 14, 1 << 12});
    const MemoryUse use = quadratic.engine().memory();
    const std::size_t parameters = (1 << 14) + (1 << 12);
    EXPECT_EQ(use.windows, 8 * parameters);
    EXPECT_EQ(use.state, 12 * parameters);
    EXPECT_EQ(use.staging, 0u);
    return std::string();
  });
}

TEST(Engine, EverybodyStartsFromRankZero) {
  for (const char* algorithm : {"awc", "atc", "allreduce", "none"}) {
    const auto models = train<float>("inproc", 3, options_for(algorithm, "sgd", "ring"), 0);
    EXPECT_EQ(models[1], models[0]) << algorithm;
    EXPECT_EQ(models[2], models[0]) << algorithm;
  }
}

TEST(Engine, CompleteGraphAgreesAndAverageIsTheMean) {
  support::run_world("inproc", 4, [](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options_for("awc", "sgd", "ring"));
    quadratic.engine().start();
    EXPECT_NEAR(quadratic.engine().consensus_distance(), 0, 1e-12);
    for (int t = 0; t < 5; ++t)
      quadratic.step();
    const std::vector<double> mine = quadratic.model();
    std::vector<std::vector<double>> mean{std::vector<double>(7), std::vector<double>(1),
                                          std::vector<double>(40), std::vector<double>(16)};
    std::vector<void*> to;
    for (auto& part : mean)
      to.push_back(part.data());
    const double distance = quadratic.engine().average(to);
    // The mean is the same everywhere, and my squared distances add up to the consensus distance.
    double squared = 0;
    std::size_t k = 0;
    for (const auto& part : mean) {
      for (double value : part)
        squared += std::pow(mine[k++] - value, 2);
    }
    const auto all = quadratic.engine().gather(squared);
    const double expected = std::sqrt(std::accumulate(all.begin(), all.end(), 0.0) / 4);
    EXPECT_GT(expected, 1e-3);
    EXPECT_NEAR(distance, expected, 1e-12);
    EXPECT_EQ(quadratic.engine().consensus_distance(), distance);
    return text_of(mean[2]);
  });
}

// Without gradients a model is only mixed: every bucket by the product of the matrices of its own rounds.
TEST(Engine, StaggeredBucketsTakeTheRoundsAheadOfTheirs) {
  const std::vector<std::size_t> sizes{8, 16, 24, 32, 40};
  support::run_world("inproc", 4, [&](support::Worker& worker) {
    EngineOptions options = options_for("awc", "sgd", "aer");
    options.stagger = true;
    options.same_start = false;
    options.bucket_bytes = 1;  // a bucket for each parameter
    Quadratic<double> quadratic(worker, options, sizes);
    Engine& engine = quadratic.engine();
    engine.start();
    const std::vector<double> before = quadratic.model();
    for (int t = 0; t < 3; ++t) {
      quadratic.backward();
      for (SegmentInput& input : quadratic.inputs())
        input.gradient = nullptr;
      engine.step(quadratic.inputs(), {});
    }
    const std::vector<double> after = quadratic.model();
    const auto schedule =
        graph::make_schedule({.topology = "aer", .shape = graph::Shape::single_node(worker.size)});
    std::vector<double> bytes;
    for (std::size_t b = 0; b < engine.buckets(); ++b)
      bytes.push_back(static_cast<double>(8 * sizes[engine.bucket(b).front()]));
    const auto ahead = graph::stagger(graph::turns_of(*schedule), bytes);
    EXPECT_EQ(*std::max_element(ahead.begin(), ahead.end()), 3) << "several rounds at once";
    for (std::size_t b = 0; b < engine.buckets(); ++b) {
      const std::size_t segment = engine.bucket(b).front();
      const auto first = std::accumulate(sizes.begin(), sizes.begin() + static_cast<long>(segment), 0ul);
      const std::vector<double> values = engine.gather(before[first]);
      Eigen::VectorXd expected = Eigen::Map<const Eigen::VectorXd>(values.data(), 4);
      for (int t = 0; t < 3; ++t)
        expected = graph::mixing_matrix(*schedule, t + ahead[b]) * expected;
      EXPECT_NEAR(after[first], expected[worker.rank], 1e-12) << "bucket " << b;
    }
    return std::string();
  });
}

// Every element by the recursion of awc, each with the rounds of the bucket that it lies in.
TEST(Engine, ASplitParameterTakesTheRoundsOfItsParts) {
  const std::vector<std::size_t> sizes{100, 9};
  const std::vector<int> machines{0, 1, 2, 3};
  for (const Layout layout : {Layout::automatic, Layout::staged}) {
    const auto body = [&](support::Worker& worker) {
      EngineOptions options = options_for("awc", "sgd", "aer");
      options.optimizer.momentum = 0;
      options.stagger = true;
      options.bucket_bytes = 256;
      options.layout = layout;
      options.schedule.shape = graph::Shape({1, 1, 1, 1});
      Quadratic<double> quadratic(worker, options, sizes);
      Engine& engine = quadratic.engine();
      engine.start();
      const auto schedule = graph::make_schedule(options.schedule);
      const std::vector<Segment> table{{"p0", nullptr, 100, DType::f64, 100},
                                       {"p1", nullptr, 9, DType::f64, 9}};
      const ModelCut cut = cut_model(table, options, *schedule, machines, true);
      EXPECT_GT(engine.buckets(), 2u);
      std::vector<std::int64_t> ahead(109, -1);
      for (std::size_t b = 0; b < cut.plans.size(); ++b) {
        for (const Placed& placed : cut.plans[b].segments)
          std::fill_n(ahead.begin() + static_cast<long>(placed.segment * 100 + placed.from), placed.count,
                      cut.ahead[b]);
      }
      EXPECT_NE(ahead[0], ahead[99]) << "one parameter, several rounds";
      for (int t = 0; t < 5; ++t) {
        const std::vector<double> before = quadratic.model();
        quadratic.backward(0.1);
        std::vector<double> gradient;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          quadratic.inputs()[i].decay = 0;
          const auto* const values = static_cast<const double*>(quadratic.inputs()[i].gradient);
          gradient.insert(gradient.end(), values, values + sizes[i]);
        }
        std::vector<double> expected;
        for (std::size_t e = 0; e < before.size(); ++e) {
          const std::vector<double> all = engine.gather(before[e]);
          const Eigen::VectorXd mixed = graph::mixing_matrix(*schedule, t + ahead[e]) *
                                        Eigen::Map<const Eigen::VectorXd>(all.data(), 4);
          expected.push_back(mixed[worker.rank] - 0.1 * gradient[e]);
        }
        engine.step(quadratic.inputs(), {});
        const std::vector<double> after = quadratic.model();
        for (std::size_t e = 0; e < after.size(); ++e)
          EXPECT_NEAR(after[e], expected[e], 1e-12) << "step " << t << ", element " << e;
      }
      return std::string();
    };
    support::run_threads(4, body, machines);
  }
}

// Even iterations are worth a copy of the model where they fill a link, and nothing in memory.
TEST(Engine, SplitsParametersBetweenMachinesAlone) {
  EngineOptions options = options_for("awc", "sgd", "aer");
  options.stagger = true;
  options.bucket_bytes = 256;
  options.schedule.shape = graph::Shape({2, 2});
  const auto schedule = graph::make_schedule(options.schedule);
  const std::vector<Segment> table{{"p0", nullptr, 100, DType::f64, 100}, {"p1", nullptr, 9, DType::f64, 9}};
  const auto splits = [&](const std::vector<int>& machines) {
    const ModelCut cut = cut_model(table, options, *schedule, machines, true);
    return std::ranges::any_of(cut.plans, [&](const BucketPlan& plan) { return plan.splits(table); });
  };
  EXPECT_TRUE(splits({0, 0, 1, 1}));
  EXPECT_FALSE(splits({0, 0, 0, 0}));
}

// In all-reduce a parameter that only one worker used this step has a gradient for everybody: its share of
// the mean.
TEST(AllReduce, GradientOfOneWorkerReachesAll) {
  const auto models = support::run_world("inproc", 3, [](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options_for("allreduce", "adam", "complete"));
    quadratic.engine().start();
    for (int t = 0; t < 4; ++t) {
      quadratic.backward();
      if (worker.rank != 1) quadratic.inputs()[2].gradient = nullptr;
      // In any order, and not all of them: the rest is taken at the step.
      quadratic.engine().gradient_ready(3, quadratic.inputs()[3]);
      quadratic.engine().gradient_ready(1, quadratic.inputs()[1]);
      const double norm = quadratic.engine().gradient_norm(quadratic.inputs());
      EXPECT_GT(norm, 0);
      float found = -1;
      quadratic.engine().find_non_finite(quadratic.inputs(), &found);
      EXPECT_EQ(found, 0);
      quadratic.engine().step(quadratic.inputs(), {});
    }
    return text_of(quadratic.model());
  });
  EXPECT_EQ(models[0], models[1]);
  EXPECT_EQ(models[0], models[2]);
}

TEST(Gradients, InfAndNanAreFoundWithoutAStep) {
  support::run_world("inproc", 1, [](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options_for("awc", "sgd", "complete"));
    quadratic.engine().start();
    for (const double value : {1e300, std::nan(""), -HUGE_VAL}) {  // the square of the first is infinite
      quadratic.backward();
      quadratic.spoil(1, value);
      float found = -1;
      quadratic.engine().find_non_finite(quadratic.inputs(), &found);
      EXPECT_EQ(found, std::isfinite(value) ? 0 : 1) << value;
    }
    return std::string();
  });
}

TEST(Trigger, MixesEveryThirdStepOnly) {
  support::run_world("inproc", 2, [](support::Worker& worker) {
    for (const char* algorithm : {"awc", "atc"}) {
      EngineOptions options = options_for(algorithm, "sgd", "complete");
      options.name = algorithm;
      options.mix_every = 3;
      Quadratic<double> quadratic(worker, options);
      quadratic.engine().start();
      for (int t = 0; t < 9; ++t) {
        const StepReport report = quadratic.step();
        EXPECT_EQ(report.bytes_read > 0, t % 3 == 2) << algorithm << ", step " << t;
      }
    }
    return std::string();
  });
}

// 16-bit parameters keep a float master: small steps are not rounded away.
TEST(SixteenBit, ParametersFollowTheirFloatMaster) {
  support::run_world("inproc", 2, [](support::Worker& worker) {
    const SteadyClock clock;
    NullLog log;
    const WorldParts world{&worker.transport, &worker.store, Members::first(2), &clock, &log, nullptr};
    for (const Layout layout : {Layout::alternating, Layout::staged}) {
      EngineOptions options = options_for("awc", "sgd", "complete");
      options.name = layout == Layout::staged ? "staged" : "alternating";
      options.optimizer.momentum = 0;
      options.layout = layout;
      options.patience = std::chrono::seconds(30);
      options.schedule.shape = graph::Shape::single_node(2);
      std::vector<std::uint16_t> parameter(5, 0x3f80);  // 1.0 in bf16
      const std::vector<float> gradient(5, 1.0f);
      Engine engine(world, options, {{"p", parameter.data(), 5, DType::bf16, 5}});
      engine.start();
      EXPECT_EQ(engine.data(0), parameter.data());
      const std::vector<SegmentInput> inputs{{gradient.data(), DType::f32, 1e-3, 0}};
      for (int t = 0; t < 100; ++t)
        engine.step(inputs, {});
      // 0.9 up to bf16's 2^-9; a bf16 master would still stand at 1.
      EXPECT_NEAR(std::bit_cast<float>(static_cast<std::uint32_t>(parameter[0]) << 16), 0.9f, 0.002f);
    }
    return std::string();
  });
}

TEST(LossyWire, SmallStepsAreNotLost) {
  support::run_world("inproc", 4, [](support::Worker& worker) {
    EngineOptions options = options_for("awc", "sgd", "complete");
    options.optimizer.momentum = 0;
    options.wire = DType::bf16;
    Quadratic<float> quadratic(worker, options, {8});
    EXPECT_EQ(quadratic.engine().layout(), Layout::staged);
    quadratic.engine().start();
    const float start = quadratic.model()[0];
    const std::vector<float> gradient(8, 1.0f);
    for (int t = 0; t < 200; ++t) {
      const std::vector<SegmentInput> inputs{{gradient.data(), DType::f32, 1e-5, 0}};
      EXPECT_EQ(quadratic.engine().step(inputs, {}).bytes_read, 3 * 16 * 2u);
    }
    EXPECT_NEAR(quadratic.model()[0], start - 200e-5f, 2e-5f);
    return std::string();
  });
}

TEST(Loss, ADeadNeighbourIsReported) {
  support::run_world("shm", 3, [](support::Worker& worker) {
    Quadratic<float> quadratic(worker, options_for("awc", "adam", "complete"));
    quadratic.engine().start();
    if (worker.rank == 2) support::die(worker);
    StepReport report;
    for (int t = 0; t < 50 && report.lost.empty(); ++t)
      report = quadratic.step();
    EXPECT_EQ(report.lost, std::vector<WorkerId>{WorkerId{2}});
    return std::string();
  });
}

}  // namespace
}  // namespace kith::engine

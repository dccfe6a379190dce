// Groups that span machines: the engine averages them on its own threads while the model computes.
#include <gtest/gtest.h>

#include "tests/engine/engine_support.h"

namespace kith::engine {
namespace {

struct Case {
  std::string algorithm;
  std::string topology;
  std::string nodes;
  std::vector<int> machines;
  std::optional<DType> wire = {};
};

std::vector<std::vector<float>> models(const Case& c, const std::vector<int>& machines) {
  // Adam's direction is nearly a sign: it would blow the rounding of a wire up to whole steps.
  EngineOptions options = options_for(c.algorithm, c.wire ? "sgd" : "accum-adamw", c.topology);
  options.schedule.shape = graph::Shape::parse(c.nodes, "test");
  options.wire = c.wire;
  std::vector<std::vector<float>> all(c.machines.size());
  support::run_threads(
      static_cast<int>(c.machines.size()),
      [&](support::Worker& worker) {
        all[static_cast<std::size_t>(worker.rank)] = train_worker<float>(worker, options, 9);
        return std::string();
      },
      machines);
  return all;
}

class OverMachines : public testing::TestWithParam<Case> {};

TEST_P(OverMachines, TrainsAsOnOneMachine) {
  const auto alone = models(GetParam(), {});
  const auto over = models(GetParam(), GetParam().machines);
  // A sum of sums rounds elsewhere than a plain sum; a rounded wire rounds more than once.
  // Weights of up to 2 make a quantum of int8 1/60.
  const double tolerance = !GetParam().wire ? 2e-6 : *GetParam().wire == DType::i8 ? 0.05 : 0.02;
  for (std::size_t rank = 0; rank < alone.size(); ++rank) {
    ASSERT_EQ(over[rank].size(), alone[rank].size());
    for (std::size_t k = 0; k < alone[rank].size(); ++k)
      ASSERT_NEAR(over[rank][k], alone[rank][k], tolerance) << "worker " << rank << ", element " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, OverMachines,
                         testing::Values(Case{"awc", "aer", "2,2", {0, 0, 1, 1}},
                                         Case{"awc", "aer", "2,2,2,2", {0, 0, 1, 1, 2, 2, 3, 3}},
                                         Case{"awc", "complete", "4,2,1", {0, 0, 0, 0, 1, 1, 2}},
                                         Case{"awc", "exp", "2,2", {0, 0, 1, 1}},
                                         Case{"awc", "aer", "2,2", {0, 0, 1, 1}, DType::bf16},
                                         Case{"awc", "complete", "1,1,1", {0, 1, 2}, DType::bf16},
                                         Case{"awc", "aer", "2,2", {0, 0, 1, 1}, DType::i8},
                                         Case{"awc", "complete", "1,1,1", {0, 1, 2}, DType::i8},
                                         Case{"awc", "aer", "2,1,1", {0, 0, 1, 2}, DType::i8},
                                         Case{"atc", "complete", "3,2", {0, 0, 0, 1, 1}},
                                         Case{"dsgt", "aer", "2,2", {0, 0, 1, 1}},
                                         Case{"allreduce", "complete", "2,2", {0, 0, 1, 1}},
                                         Case{"allreduce", "complete", "1,1,1,1", {0, 1, 2, 3}},
                                         Case{"allreduce", "complete", "2,2", {0, 0, 1, 1}, DType::bf16},
                                         Case{"allreduce", "complete", "1,1,1,1", {0, 1, 2, 3}, DType::f16}),
                         [](const auto& test) {
                           std::string name = test.param.algorithm + "_" + test.param.topology + "_";
                           for (int machine : test.param.machines)
                             name += std::to_string(machine);
                           return name + (test.param.wire ? cat("_", name_of(*test.param.wire)) : "");
                         });

TEST(OverMachines, WaitingIsWhatTheStepWaits) {
  const auto runs = [](Clock::Duration compute) {
    EngineOptions options = options_for("awc", "sgd", "aer");
    options.schedule.shape = graph::Shape::parse("2,2", "test");
    std::vector<double> waited(4);
    support::run_threads(4,
                         [&](support::Worker& worker) {
                           Quadratic<float> quadratic(worker, options);
                           quadratic.engine().start();
                           for (int t = 0; t < 6; ++t) {
                             if (worker.rank == 3) std::this_thread::sleep_for(compute);
                             waited[static_cast<std::size_t>(worker.rank)] +=
                                 seconds(quadratic.step().waited);
                           }
                           return std::string();
                         },
                         {0, 0, 1, 1});
    return waited;
  };
  // Everybody waits for worker 3; worker 3 finds what it needs.
  const std::vector<double> waited = runs(std::chrono::milliseconds(40));
  EXPECT_GT(waited[0], 0.1);
  EXPECT_LT(waited[3], waited[0] / 2);
}

}  // namespace
}  // namespace kith::engine

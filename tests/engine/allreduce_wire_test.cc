// All-reduce on a narrow wire: gradients are rounded, workers do not come apart.
#include <gtest/gtest.h>

#include "tests/engine/engine_support.h"

namespace kith::engine {
namespace {

struct Case {
  std::string name;
  int workers = 4;
  std::vector<int> machines = {};
  Memory memory = Memory::host;
};

class AllReduceWire : public testing::TestWithParam<Case> {};

struct Trained {
  std::vector<std::vector<float>> models;      // by worker
  std::vector<std::uint64_t> read, published;  // by worker, of the last step
};

Trained train_on(const Case& c, std::optional<DType> wire) {
  EngineOptions options = options_for("allreduce", "sgd", "complete");
  options.wire = wire;
  Trained run;
  const auto workers = static_cast<std::size_t>(c.workers);
  run.models.resize(workers);
  run.read.resize(workers);
  run.published.resize(workers);
  support::run_threads(
      c.workers,
      [&](support::Worker& worker) {
        const auto rank = static_cast<std::size_t>(worker.rank);
        Quadratic<float> quadratic(worker, options, {7, 1, 4000, 16}, c.memory);
        quadratic.engine().start();
        for (int t = 0; t < 9; ++t) {
          const StepReport report = quadratic.step();
          run.read[rank] = report.bytes_read;
          run.published[rank] = report.bytes_published;
        }
        run.models[rank] = quadratic.model();
        return std::string();
      },
      c.machines);
  return run;
}

TEST_P(AllReduceWire, HalvesTheBytesAndKeepsWorkersTogether) {
  const Trained plain = train_on(GetParam(), {});
  for (const DType wire : {DType::bf16, DType::f16}) {
    const Trained rounded = train_on(GetParam(), wire);
    for (std::size_t rank = 0; rank < plain.models.size(); ++rank) {
      EXPECT_EQ(text_of(rounded.models[rank]), text_of(rounded.models[0])) << name_of(wire);
      EXPECT_EQ(2 * rounded.read[rank], plain.read[rank]) << name_of(wire);
      EXPECT_EQ(2 * rounded.published[rank], plain.published[rank]) << name_of(wire);
    }
    EXPECT_NE(text_of(rounded.models[0]), text_of(plain.models[0])) << "nothing was rounded";
    for (std::size_t k = 0; k < plain.models[0].size(); ++k)
      ASSERT_NEAR(rounded.models[0][k], plain.models[0][k], wire == DType::bf16 ? 0.02 : 0.0025)
          << name_of(wire) << ", element " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, AllReduceWire,
                         testing::Values(Case{"one_machine", 4, {}}, Case{"three_workers", 3, {}},
                                         Case{"two_machines", 4, {0, 0, 1, 1}},
                                         Case{"uneven_machines", 4, {0, 0, 0, 1}},
                                         Case{"four_machines", 4, {0, 1, 2, 3}},
                                         Case{"through_host_memory", 3, {}, Memory::copies}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace kith::engine

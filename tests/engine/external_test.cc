// Somebody else's optimizer moves the parameters; gradients are averaged for whoever wants to read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "tests/engine/engine_support.h"
#include "tests/support/failure.h"

namespace kith::engine {
namespace {

using support::failure_of;
using testing::HasSubstr;

constexpr double kLr = 0.1;
constexpr int kSteps = 9;

struct Case {
  std::string algorithm;
  std::optional<DType> wire = {};
  Memory memory = Memory::host;
  std::vector<int> machines = {};
};

EngineOptions options_of(const Case& c, bool external) {
  EngineOptions options = options_for(c.algorithm, "sgd", "aer");
  options.optimizer.momentum = 0;
  options.schedule.shape = graph::Shape::parse("2,2", "test");
  options.wire = c.wire;
  options.external_optimizer = external;
  return options;
}

// x <- x - lr g where x lies.
void descend(Quadratic<double>& quadratic) {
  const auto kernels = kernels::make_kernels<double>(quadratic.queue());
  const std::vector<std::size_t> sizes{7, 1, 40, 16};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto* const x = static_cast<double*>(quadratic.engine().data(i));
    const std::array<kernels::Source, 2> sources{
        kernels::Source{x, DType::f64, 1}, kernels::Source{quadratic.inputs()[i].gradient, DType::f64, -kLr}};
    kernels->mix({x, nullptr, {}}, {sources, 1}, sizes[i]);
  }
}

std::vector<std::vector<double>> models(const Case& c, bool external) {
  std::vector<std::vector<double>> all(4);
  support::run_threads(
      4,
      [&](support::Worker& worker) {
        Quadratic<double> quadratic(worker, options_of(c, external), {7, 1, 40, 16}, c.memory);
        quadratic.engine().start();
        for (int t = 0; t < kSteps; ++t) {
          quadratic.backward(kLr);
          std::vector<SegmentInput> inputs = quadratic.inputs();
          for (SegmentInput& input : inputs)
            input = external ? SegmentInput{} : SegmentInput{input.gradient, DType::f64, kLr, 0};
          if (external) descend(quadratic);
          quadratic.engine().step(inputs, {});
        }
        all[static_cast<std::size_t>(worker.rank)] = quadratic.model();
        return std::string();
      },
      c.machines);
  return all;
}

class External : public testing::TestWithParam<Case> {};

TEST_P(External, EqualsTheFusedStep) {
  const auto fused = models(GetParam(), false);
  const auto external = models(GetParam(), true);
  for (std::size_t rank = 0; rank < fused.size(); ++rank) {
    ASSERT_EQ(external[rank].size(), fused[rank].size());
    for (std::size_t k = 0; k < fused[rank].size(); ++k)
      ASSERT_NEAR(external[rank][k], fused[rank][k], 1e-12) << "worker " << rank << ", element " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Engine, External,
    testing::Values(Case{"awc"}, Case{"atc"}, Case{"none"}, Case{"awc", DType::bf16},
                    Case{"awc", {}, Memory::windows}, Case{"awc", {}, Memory::copies},
                    Case{"awc", DType::bf16, Memory::copies}, Case{"awc", {}, Memory::host, {0, 0, 1, 1}},
                    Case{"awc", DType::bf16, Memory::host, {0, 0, 1, 1}}, Case{"awc", DType::i8},
                    Case{"awc", DType::i8, Memory::copies},
                    Case{"awc", DType::i8, Memory::host, {0, 0, 1, 1}}),
    [](const auto& test) {
      return cat(test.param.algorithm, test.param.wire ? cat("_", name_of(*test.param.wire)) : "", "_",
                 std::array{"host", "windows", "copies", "gpu"}[static_cast<std::size_t>(test.param.memory)],
                 test.param.machines.empty() ? "" : "_machines");
    });

TEST(ExternalOptimizer, IsRefusedWhereGradientsAreMixed) {
  for (const char* algorithm : {"dsgt", "sgp"}) {
    EngineOptions options;
    options.algorithm = algorithm;
    options.external_optimizer = true;
    EXPECT_THAT(failure_of<InputError>([&] { validate(options); }), HasSubstr(algorithm));
  }
  EngineOptions options;
  options.external_optimizer = true;
  options.layout = Layout::alternating;
  EXPECT_THAT(failure_of<InputError>([&] { validate(options); }), HasSubstr("staged"));
}

// A 16-bit parameter moves its float master by as much as it was moved itself, and not by its own rounding.
TEST(ExternalOptimizer, MovesTheMasterOfA16BitParameter) {
  support::run_threads(1, [](support::Worker& worker) {
    const SteadyClock clock;
    NullLog log;
    const WorldParts world{&worker.transport, &worker.store, Members::first(1), &clock, &log, nullptr};
    EngineOptions options = options_for("none", "sgd", "complete");
    options.external_optimizer = true;
    std::vector<std::uint16_t> parameter(3, 0x3f80);  // 1.0 in bf16
    Engine engine(world, options, {{"p", parameter.data(), 3, DType::bf16, 3}});
    engine.start();
    const auto master = [&] {
      std::vector<float> values(3);
      for (const StateSpan& span : engine.state())
        if (span.name.ends_with("/model0")) std::memcpy(values.data(), span.bytes.data(), span.bytes.size());
      return values;
    };
    for (const StateSpan& span : engine.state()) {
      const std::vector<float> below{1.001F, 1, 1};  // rounds to 1
      if (span.name.ends_with("/model0")) std::memcpy(span.bytes.data(), below.data(), span.bytes.size());
    }
    parameter[1] = 0x4000;  // 2.0
    engine.step(std::vector<SegmentInput>(1), {});
    EXPECT_EQ(master(), (std::vector<float>{1.001F, 2, 1}));
    EXPECT_EQ(parameter, (std::vector<std::uint16_t>{0x3f80, 0x4000, 0x3f80}));
    return std::string();
  });
}

// Gradients become the mean where they lie, and the step takes what was made of them.
TEST(MeanGradients, AreHandedOutAndTakenBack) {
  for (const Memory memory : {Memory::host, Memory::copies}) {
    std::vector<std::vector<double>> gradients(2), with(2), without(2);
    for (const bool hands_out : {true, false}) {
      support::run_threads(2, [&](support::Worker& worker) {
        const auto rank = static_cast<std::size_t>(worker.rank);
        EngineOptions options = options_for("allreduce", "sgd", "complete");
        Quadratic<double> quadratic(worker, options, {7, 1, 40, 16}, memory);
        quadratic.engine().start();
        for (int t = 0; t < 4; ++t) {
          quadratic.backward();
          if (hands_out) {
            std::vector<void*> to;
            for (const SegmentInput& input : quadratic.inputs())
              to.push_back(const_cast<void*>(input.gradient));
            const std::vector<bool> there = quadratic.engine().mean_gradients(quadratic.inputs(), to);
            EXPECT_THAT(there, testing::Each(true));
            std::vector<double> first(7);
            quadratic.queue().copy_now(first.data(), to[0], 7 * sizeof(double));
            gradients[rank] = first;
          }
          quadratic.engine().step(quadratic.inputs(), {});
        }
        (hands_out ? with : without)[rank] = quadratic.model();
        return std::string();
      });
    }
    EXPECT_EQ(gradients[0], gradients[1]);
    EXPECT_EQ(with, without);
  }
}

TEST(MeanGradients, ThatNobodyHasStayAway) {
  support::run_threads(2, [](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options_for("allreduce", "sgd", "complete"));
    quadratic.engine().start();
    quadratic.backward();
    std::vector<SegmentInput> inputs = quadratic.inputs();
    inputs[1] = {};
    if (worker.rank == 0) inputs[2] = {};
    std::vector<std::vector<double>> means{
        std::vector<double>(7), {-5}, std::vector<double>(40), std::vector<double>(16)};
    std::vector<void*> to;
    for (auto& mean : means)
      to.push_back(mean.data());
    EXPECT_EQ(quadratic.engine().mean_gradients(inputs, to), (std::vector<bool>{true, false, true, true}));
    EXPECT_EQ(means[1][0], -5);
    if (worker.rank == 1) {
      EXPECT_EQ(means[2][3], static_cast<const double*>(quadratic.inputs()[2].gradient)[3] / 2);
    }
    quadratic.engine().step(inputs, {});
    return std::string();
  });
}

}  // namespace
}  // namespace kith::engine

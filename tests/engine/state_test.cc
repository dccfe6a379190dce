#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "kith/optim/algorithm.h"
#include "kith/optim/methods.h"
#include "tests/engine/engine_support.h"

namespace kith::engine {
namespace {

class Resume : public testing::TestWithParam<std::string> {};

// Ten steps, or six, a copy of the state into a fresh engine, and four more: the same bits.
void expect_same_bits(const EngineOptions& options) {
  const auto straight = train<float>("inproc", 3, options, 10);

  std::vector<std::map<std::string, std::vector<std::byte>>> saved(3);
  support::run_world("inproc", 3, [&](support::Worker& worker) {
    Quadratic<float> quadratic(worker, options);
    quadratic.engine().start();
    for (int t = 0; t < 6; ++t)
      quadratic.step();
    for (const StateSpan& span : quadratic.engine().state()) {
      const bool fresh = saved[static_cast<std::size_t>(worker.rank)]
                             .try_emplace(span.name, span.bytes.begin(), span.bytes.end())
                             .second;
      EXPECT_TRUE(fresh) << span.name << " twice";
    }
    return std::string();
  });
  const auto resumed = support::run_world("inproc", 3, [&](support::Worker& worker) {
    Quadratic<float> quadratic(worker, options);
    quadratic.engine().restore(6);
    for (const StateSpan& span : quadratic.engine().state()) {
      const auto& bytes = saved[static_cast<std::size_t>(worker.rank)].at(span.name);
      EXPECT_EQ(bytes.size(), span.bytes.size());
      std::memcpy(span.bytes.data(), bytes.data(), bytes.size());
    }
    quadratic.engine().resume();
    for (int t = 6; t < 10; ++t)
      EXPECT_EQ(quadratic.step().step, t);
    return text_of(quadratic.model());
  });
  EXPECT_EQ(resumed, straight);
}

TEST_P(Resume, GivesTheBitsOfNeverHavingStopped) {
  const std::string algorithm = GetParam();
  const bool directed = optim::make_algorithm<float>(algorithm)->needs_directed_schedule();
  const std::string family(optim::method_of(algorithm).optimizer);
  EngineOptions options =
      options_for(algorithm, family.empty() ? "accum-adamw" : family, directed ? "random-directed" : "aer");
  options.schedule.shape = graph::Shape({2, 1});
  for (const bool stagger : {false, true}) {
    options.stagger = stagger;
    // A parameter in several buckets, which are at different rounds.
    if (stagger) options.cut = {{{3, 16}, {2, 13}}, {{2, 20}}, {{2, 7}, {1, 1}, {0, 7}}};
    options.trigger = stagger ? "every 1" : "from 0 every 1, from 4 every 3";
    options.method.rounds = optim::method_of(algorithm).takes_rounds && stagger ? 2 : 1;
    if (optim::method_of(algorithm).codec != optim::Method::Codec::none) {
      EngineOptions coded = options;
      coded.wire.reset();
      coded.codec = directed ? "qsgd 6" : stagger ? "sign" : "random-k 0.3";
      SCOPED_TRACE(cat(algorithm, stagger ? ", staggered, " : ", ", coded.codec));
      expect_same_bits(coded);
    }
    if (optim::method_of(algorithm).codec == optim::Method::Codec::needed) continue;
    for (const DType wire : {DType::f32, DType::bf16, DType::i8}) {
      if (wire == DType::i8 && optim::exchange_of(algorithm) == optim::Exchange::gradients) continue;
      SCOPED_TRACE(cat(algorithm, stagger ? ", staggered, " : ", ", name_of(wire)));
      options.wire = wire;
      expect_same_bits(options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, Resume, testing::ValuesIn(optim::algorithm_names()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace kith::engine

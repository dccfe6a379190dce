// `sgp` after a loss: Note [Mass after a loss].
#include "tests/support/push_sum.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tests/engine/engine_support.h"
#include "tests/support/observed_windows.h"

namespace kith::engine {
namespace {

constexpr int kWorkers = 5;
constexpr Rank kDying = 2;
constexpr int kSteps = 60;

// When worker 2 goes, seen from the step that it does not finish.
//   before_taking  in it: everybody has published, it has taken nothing
//   after_taking   before it, in good order: it took its shares of the step before, and the others know that
//   it
//                  is gone before they take theirs
enum class Moment { before_taking, after_taking };

// The push-sum weights of all buckets, which are alike.
double weight_of(Engine& engine) {
  std::vector<double> weights;
  for (const StateSpan& span : engine.state()) {
    if (!span.name.ends_with("/weight")) continue;
    weights.emplace_back();
    std::memcpy(&weights.back(), span.bytes.data(), sizeof(double));
  }
  EXPECT_GT(weights.size(), 1u);
  for (const double weight : weights)
    EXPECT_EQ(weight, weights.front());
  return weights.front();
}

class PushSumLoss : public testing::TestWithParam<std::tuple<Moment, DType>> {
 protected:
  // By worker, after each step.
  static std::vector<std::vector<double>> weights_over_a_loss(const EngineOptions& options, int death,
                                                              Moment moment) {
    std::vector<std::vector<double>> weights(kWorkers);
    support::run_world("inproc", kWorkers, [&](support::Worker& worker) {
      const auto lose = [&] { support::await_loss(worker, WorkerId{kDying}); };
      int step = -1;
      std::size_t buckets = 0, published = 0;  // of them in this step
      support::ObservedTransport transport(worker.transport, [&] {
        if (step < 0 || ++published < buckets) return;
        if (moment == Moment::after_taking) {
          if (step == death - 1 && worker.rank != kDying) lose();
          return;
        }
        if (step != death) return;
        worker.store.set(cat("published/", worker.rank), "");
        for (int rank = 0; rank < kWorkers; ++rank)
          EXPECT_TRUE(worker.store.wait(cat("published/", rank), support::in_time()));
        if (worker.rank == kDying) support::die(worker);
        lose();
      });
      support::Worker observed{worker.rank, worker.size, transport, worker.store};
      Quadratic<double> quadratic(observed, options);
      buckets = quadratic.engine().buckets();
      quadratic.engine().start();
      for (step = 0; step < kSteps; ++step) {
        published = 0;
        if (moment == Moment::after_taking && step == death && worker.rank == kDying) support::die(worker);
        EXPECT_TRUE(quadratic.step().late.empty());
        weights[static_cast<std::size_t>(worker.rank)].push_back(weight_of(quadratic.engine()));
      }
      for (const double value : quadratic.model())
        EXPECT_LT(std::abs(value), 10);
      return std::string();
    });
    return weights;
  }
};

TEST_P(PushSumLoss, MassOfTheSurvivorsAndOfTheDeadStaysWhole) {
  const auto [moment, wire] = GetParam();
  for (const char* topology : {"exp-directed", "random-directed"}) {
    EngineOptions options = options_for("sgp", "sgd", topology);
    options.wire = wire;
    options.schedule.shape = graph::Shape::single_node(kWorkers);
    const auto schedule = graph::make_schedule(options.schedule);
    for (const int death : {1, 2, 3, 7}) {
      SCOPED_TRACE(cat(topology, ", step ", death));
      const auto weights = weights_over_a_loss(options, death, moment);
      support::expect_whole(weights, {*schedule, kDying}, kDying,
                            moment == Moment::before_taking ? death + 1 : death);
    }
  }
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Moment, DType>>& test) {
  const auto& [moment, wire] = test.param;
  return cat(moment == Moment::before_taking ? "before_taking_" : "after_taking_", name_of(wire));
}
INSTANTIATE_TEST_SUITE_P(Engine, PushSumLoss,
                         testing::Combine(testing::Values(Moment::before_taking, Moment::after_taking),
                                          testing::Values(DType::f64, DType::bf16, DType::i8)),
                         name_of_case);

}  // namespace
}  // namespace kith::engine

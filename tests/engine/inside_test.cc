// Gradients inside, models outside: a node's workers average gradients and stay one model.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/engine/node_schedule.h"
#include "kith/graph/matrix.h"
#include "tests/engine/engine_support.h"
#include "tests/support/failure.h"
#include "tests/support/observed_windows.h"
#include "tests/support/push_sum.h"

namespace kith::engine {
namespace {

using support::failure_of;
using ::testing::HasSubstr;

constexpr int kNodes = 3, kSize = 2, kWorkers = kNodes * kSize;
const std::vector<int> kMachines{0, 0, 1, 1, 2, 2};
const std::vector<std::size_t> kSizes{7, 1, 40, 16};

struct Case {
  std::string algorithm, topology;
  std::vector<int> machines = {};
  std::optional<DType> wire = {};
  Memory memory = Memory::host;
  std::vector<int> nodes = {kSize, kSize, kSize};  // their workers, kWorkers in all

  // Of a worker.
  int node_of(int rank) const { return graph::Shape(nodes).node_of(rank); }
  int first_of(int rank) const { return graph::Shape(nodes).first_of(node_of(rank)); }
};

EngineOptions options_of(const Case& c, const std::string& optimizer) {
  EngineOptions options = options_for(c.algorithm, optimizer, c.topology);
  options.schedule.shape = graph::Shape(c.nodes);
  options.inside = "allreduce";
  options.wire = c.wire;
  return options;
}

std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  std::string name = test.param.algorithm + "_" + test.param.topology;
  std::replace(name.begin(), name.end(), '-', '_');
  if (test.param.nodes.front() != kSize) name += "_unequal";
  if (!test.param.machines.empty())
    name += test.param.machines.back() == kNodes - 1 ? "_machines" : "_two_machines";
  if (test.param.memory != Memory::host)
    name += test.param.memory == Memory::windows ? "_windows" : "_copies";
  return test.param.wire ? cat(name, "_", name_of(*test.param.wire)) : name;
}

class InsideNode : public testing::TestWithParam<Case> {};
class OverNodes : public testing::TestWithParam<Case> {};

// Rows are nodes. The algorithms' formulas in plain loops, with sgd and without decay: the gradient of a node
// is its model less the mean of its workers' targets.
Eigen::MatrixXd recursion(const Case& c, Eigen::MatrixXd x, const Eigen::MatrixXd& target, int steps) {
  const auto schedule =
      graph::make_schedule({.topology = c.topology, .shape = graph::Shape(std::vector<int>(kNodes, 1))});
  const double lr = 0.1;
  Eigen::MatrixXd h = 0 * x, last = 0 * x;
  Eigen::VectorXd y = Eigen::VectorXd::Ones(kNodes);
  for (int t = 0; t < steps; ++t) {
    const Eigen::MatrixXd w = graph::mixing_matrix(*schedule, t);
    const Eigen::MatrixXd g = x - target;
    if (c.algorithm == "awc") {
      x = (w * x - lr * g).eval();
    } else if (c.algorithm == "atc") {
      x = (w * (x - lr * g)).eval();
    } else if (c.algorithm == "dsgt") {
      h = (w * (h + g - last)).eval();
      last = g;
      x = (w * (x - lr * h)).eval();
    } else if (c.algorithm == "sgp") {
      x = (w * (y.asDiagonal() * x - lr * g)).eval();
      y = (w * y).eval();
      x = (y.cwiseInverse().asDiagonal() * x).eval();
    } else {
      x -= lr * g;
    }
  }
  return x;
}

// What Quadratic draws for a worker: first values and targets.
std::pair<Eigen::RowVectorXd, Eigen::RowVectorXd> drawn(int rank) {
  Rng rng(hash_words(3, rank));
  std::vector<double> first, target;
  for (const std::size_t size : kSizes) {
    for (std::size_t k = 0; k < size; ++k)
      first.push_back(rng.uniform());
    for (std::size_t k = 0; k < size; ++k)
      target.push_back(rng.uniform() * 4 - 2);
  }
  const auto row = [](const std::vector<double>& values) {
    return Eigen::Map<const Eigen::RowVectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
  };
  return {row(first), row(target)};
}

TEST_P(OverNodes, ModelsFollowTheRecursion) {
  constexpr int kSteps = 7;
  std::vector<std::vector<double>> models(kWorkers);
  support::run_threads(
      kWorkers,
      [&](support::Worker& worker) {
        EngineOptions options = options_of(GetParam(), "sgd");
        options.optimizer.momentum = 0;
        Quadratic<double> quadratic(worker, options, kSizes, GetParam().memory);
        quadratic.engine().start();
        for (int t = 0; t < kSteps; ++t) {
          quadratic.backward(0.1);
          for (SegmentInput& input : quadratic.inputs())
            input.decay = 0;
          quadratic.engine().step(quadratic.inputs(), {});
        }
        models[static_cast<std::size_t>(worker.rank)] = quadratic.model();
        return std::string();
      },
      GetParam().machines);

  const Eigen::RowVectorXd first = drawn(0).first;
  Eigen::MatrixXd target = Eigen::MatrixXd::Zero(kNodes, first.size());
  for (int rank = 0; rank < kWorkers; ++rank)
    target.row(GetParam().node_of(rank)) +=
        drawn(rank).second / GetParam().nodes[static_cast<std::size_t>(GetParam().node_of(rank))];
  const Eigen::MatrixXd expected = recursion(GetParam(), first.replicate(kNodes, 1), target, kSteps);
  for (int rank = 0; rank < kWorkers; ++rank) {
    const std::vector<double>& got = models[static_cast<std::size_t>(rank)];
    ASSERT_EQ(got.size(), static_cast<std::size_t>(first.size()));
    for (std::size_t k = 0; k < got.size(); ++k)
      ASSERT_NEAR(got[k], expected(GetParam().node_of(rank), static_cast<Eigen::Index>(k)), 1e-12)
          << "worker " << rank << ", element " << k;
  }
}

TEST_P(InsideNode, WorkersOfANodeStayBitIdentical) {
  std::vector<double> distances(kWorkers);
  const auto models = support::run_threads(
      kWorkers,
      [&](support::Worker& worker) {
        Quadratic<float> quadratic(worker, options_of(GetParam(), "accum-adamw"), kSizes, GetParam().memory);
        Engine& engine = quadratic.engine();
        engine.start();
        for (int t = 0; t < 9; ++t) {
          quadratic.backward();
          if (worker.rank == 1) quadratic.inputs()[2].gradient = nullptr;  // its mate has one
          engine.gradient_ready(3, quadratic.inputs()[3]);  // in any order, the rest at the step
          engine.gradient_ready(0, quadratic.inputs()[0]);
          const StepReport report = engine.step(quadratic.inputs(), {.max_norm = 5.0});
          EXPECT_TRUE(report.late.empty() && report.lost.empty());
        }
        distances[static_cast<std::size_t>(worker.rank)] = engine.consensus_distance();
        return text_of(quadratic.model());
      },
      GetParam().machines);
  for (int rank = 0; rank < kWorkers; ++rank) {
    EXPECT_EQ(models[static_cast<std::size_t>(rank)],
              models[static_cast<std::size_t>(GetParam().first_of(rank))]);
    EXPECT_GT(distances[static_cast<std::size_t>(rank)], 0) << "nodes are models of their own";
  }
}

const std::vector<int> kTwo{0, 0, 0, 0, 1, 1};  // machines, of two nodes and of one
const std::vector<int> kUnequal{3, 1, 2};       // workers of nodes

Case unequal(const std::string& algorithm, const std::string& topology, const std::vector<int>& machines = {},
             std::optional<DType> wire = {}, Memory memory = Memory::host) {
  return {algorithm, topology, machines, wire, memory, kUnequal};
}
const std::vector<int> kUnequalMachines{0, 0, 0, 1, 2, 2};

INSTANTIATE_TEST_SUITE_P(
    Engine, OverNodes,
    testing::Values(Case{"awc", "complete"}, Case{"awc", "aer"}, Case{"awc", "ring-static"},
                    Case{"awc", "complete", kMachines}, Case{"awc", "aer", kMachines},
                    Case{"awc", "ring-static", kMachines}, Case{"awc", "complete", kTwo},
                    Case{"awc", "aer", {}, {}, Memory::windows}, Case{"awc", "aer", {}, {}, Memory::copies},
                    Case{"atc", "aer"}, Case{"atc", "complete", kMachines}, Case{"dsgt", "aer"},
                    Case{"dsgt", "complete", kMachines}, Case{"sgp", "exp-directed"},
                    Case{"sgp", "random-directed", kMachines}, Case{"none", "aer"},
                    unequal("awc", "complete"), unequal("awc", "aer"), unequal("awc", "ring-static"),
                    unequal("awc", "complete", kUnequalMachines), unequal("awc", "aer", kTwo),
                    unequal("atc", "aer", kUnequalMachines), unequal("awc", "aer", {}, {}, Memory::windows),
                    unequal("dsgt", "complete"), unequal("sgp", "exp-directed"),
                    unequal("sgp", "random-directed", kUnequalMachines)),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Engine, InsideNode,
    testing::Values(Case{"awc", "aer"}, Case{"awc", "ring-static"}, Case{"awc", "aer", kMachines},
                    Case{"awc", "aer", kTwo, DType::bf16}, Case{"awc", "ring-static", kMachines},
                    Case{"awc", "aer", {}, DType::bf16}, Case{"awc", "complete", kMachines, DType::bf16},
                    Case{"awc", "aer", kTwo, DType::i8}, Case{"awc", "complete", kMachines, DType::i8},
                    Case{"awc", "complete", kMachines, {}, Memory::copies}, Case{"atc", "ring-static"},
                    Case{"atc", "ring-static", kMachines, DType::f16}, Case{"dsgt", "ring-static"},
                    Case{"dsgt", "ring-static", kMachines}, Case{"sgp", "exp-directed"}, Case{"none", "aer"},
                    unequal("awc", "aer"), unequal("awc", "complete", kUnequalMachines, DType::bf16),
                    unequal("atc", "ring-static", kTwo), unequal("awc", "complete", kTwo, {}, Memory::copies),
                    unequal("dsgt", "ring-static"), unequal("sgp", "exp-directed", kUnequalMachines)),
    name_of_case);

TEST(Inside, NumbersAreAveragedInTheNode) {
  const auto texts = support::run_world("inproc", kWorkers, [](support::Worker& worker) {
    Quadratic<float> quadratic(worker, options_of({"awc", "aer"}, "sgd"));
    quadratic.engine().start();
    std::vector<double> numbers(5000);  // more than a window holds
    for (std::size_t k = 0; k < numbers.size(); ++k)
      numbers[k] = 0.1 * worker.rank + static_cast<double>(k);
    quadratic.engine().average_inside(numbers);
    for (std::size_t k = 0; k < numbers.size(); ++k)
      EXPECT_NEAR(numbers[k], 0.1 * (worker.rank / kSize * kSize + 0.5) + static_cast<double>(k), 1e-12);
    return text_of(numbers);
  });
  EXPECT_EQ(texts[2], texts[3]);
}

TEST(Inside, ProcessesGiveTheBitsOfThreads) {
  const EngineOptions options = options_of({"awc", "aer"}, "adamw");
  EXPECT_EQ(train<float>("shm", kWorkers, options, 9), train<float>("inproc", kWorkers, options, 9));
}

TEST(Inside, OneNodeIsAllReduce) {
  EngineOptions inside = options_of({"awc", "aer"}, "adamw");
  inside.schedule.shape = graph::Shape::single_node(3);
  EXPECT_EQ(train<double>("inproc", 3, inside, 9),
            train<double>("inproc", 3, options_for("allreduce", "adamw", "complete"), 9));
}

// All buckets are averaged before anybody has called step().
TEST(Inside, GradientsAreAveragedWhileBackwardGoesOn) {
  support::run_world("inproc", kWorkers, [](support::Worker& worker) {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t published = 0;
    support::ObservedTransport transport(worker.transport, [&] {
      const std::lock_guard lock(mutex);
      ++published;
      changed.notify_all();
    });
    support::Worker observed{worker.rank, worker.size, transport, worker.store};
    Quadratic<float> quadratic(observed, options_of({"awc", "aer"}, "sgd"), kSizes);
    Engine& engine = quadratic.engine();
    engine.start();
    quadratic.backward();
    std::unique_lock lock(mutex);
    const std::size_t before = published;
    lock.unlock();
    EXPECT_GT(engine.buckets(), 1u);
    for (std::size_t i = 0; i < kSizes.size(); ++i)
      engine.gradient_ready(i, quadratic.inputs()[i]);
    lock.lock();
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(30),
                                 [&] { return published == before + engine.buckets(); }));
    lock.unlock();
    engine.step(quadratic.inputs(), {});
    return std::string();
  });
}

using Saved = std::vector<std::map<std::string, std::vector<std::byte>>>;

Saved saved_after(const EngineOptions& options, int steps) {
  Saved saved(kWorkers);
  support::run_world("inproc", kWorkers, [&](support::Worker& worker) {
    Quadratic<float> quadratic(worker, options);
    quadratic.engine().start();
    for (int t = 0; t < steps; ++t)
      quadratic.step();
    for (const StateSpan& span : quadratic.engine().state())
      saved[static_cast<std::size_t>(worker.rank)][span.name].assign(span.bytes.begin(), span.bytes.end());
    return std::string();
  });
  return saved;
}

void fill(Engine& engine, const std::map<std::string, std::vector<std::byte>>& saved) {
  for (const StateSpan& span : engine.state()) {
    const std::vector<std::byte>& bytes = saved.at(span.name);
    ASSERT_EQ(bytes.size(), span.bytes.size());
    std::memcpy(span.bytes.data(), bytes.data(), bytes.size());
  }
}

TEST(Inside, ResumeGivesTheBitsOfNeverHavingStopped) {
  const EngineOptions options = options_of({"awc", "aer"}, "accum-adamw");
  const auto straight = train<float>("inproc", kWorkers, options, 10);
  const Saved saved = saved_after(options, 6);
  EXPECT_EQ(saved[2], saved[3]);
  const auto resumed = support::run_world("inproc", kWorkers, [&](support::Worker& worker) {
    Quadratic<float> quadratic(worker, options);
    quadratic.engine().restore(6);
    // A node is one model: its first worker's state is the state of all of them.
    fill(quadratic.engine(), saved[static_cast<std::size_t>(worker.rank / kSize * kSize)]);
    quadratic.engine().resume();
    for (int t = 6; t < 10; ++t)
      quadratic.step();
    return text_of(quadratic.model());
  });
  EXPECT_EQ(resumed, straight);
}

// State of a run in which every worker was a model of its own.
TEST(Inside, ResumingDifferentModelsInANodeIsRefusedByEverybody) {
  EngineOptions apart = options_of({"awc", "ring-static"}, "sgd");
  apart.inside = "none";
  const Saved saved = saved_after(apart, 3);
  support::run_world("inproc", kWorkers, [&](support::Worker& worker) {
    EngineOptions options = apart;
    options.inside = "allreduce";
    Quadratic<float> quadratic(worker, options);
    quadratic.engine().restore(3);
    fill(quadratic.engine(), saved[static_cast<std::size_t>(worker.rank)]);
    EXPECT_THAT(failure_of<InputError>([&] { quadratic.engine().resume(); }),
                HasSubstr("resume different models"));
    return std::string();
  });
}

// A worker that does without its mate would leave its node.
TEST(Inside, AStepWithoutAMateFails) {
  support::run_world("inproc", kWorkers, [](support::Worker& worker) {
    Quadratic<float> quadratic(worker, options_of({"awc", "complete"}, "sgd"));
    quadratic.engine().start();
    quadratic.step();
    quadratic.engine().gather(0);
    if (worker.rank == 3) support::die(worker);
    support::await_loss(worker, WorkerId{3});
    if (worker.rank == 2) {
      EXPECT_THAT(failure_of<Error>([&] { quadratic.step(); }), HasSubstr("worker 3 is gone"));
    }
    return std::string();
  });
}

TEST(Inside, ImpossibleCombinationsNameTheRemedy) {
  const auto problem = [](const std::function<void(EngineOptions&)>& spoil) {
    EngineOptions options = options_of({"awc", "aer"}, "sgd");
    spoil(options);
    return failure_of<InputError>([&] { validate(options); });
  };
  EXPECT_THAT(failure_of<InputError>([] {
                EngineOptions options = options_of({"awc", "aer"}, "sgd");
                options.schedule.shape = graph::Shape({1, 1});
                require_mates(options);
              }),
              HasSubstr("one worker each"));
  EXPECT_THAT(problem([](EngineOptions& o) { o.algorithm = "allreduce"; }), HasSubstr("with everybody"));
  EXPECT_THAT(problem([](EngineOptions& o) { o.same_start = false; }), HasSubstr("same model"));
  EXPECT_THAT(problem([](EngineOptions& o) { o.inside = "allredduce"; }), HasSubstr("allreduce"));
  EXPECT_THAT(failure_of<InputError>([] {
                make_node_schedule({.topology = "complete", .shape = graph::Shape({2, 2})}, {0, 1, 1, 1});
              }),
              HasSubstr("one machine"));
}

// Each node counts once, whatever the number of its workers, and every worker has as many readers as read it.
TEST(NodeSchedule, UnequalNodesReadWhoeverIsThere) {
  const graph::ScheduleOptions options{.topology = "complete", .shape = graph::Shape({3, 1, 2})};
  const auto schedule = make_node_schedule(options, {0, 0, 0, 0, 1, 1});
  const graph::WorkerRound third = schedule->round(2, 0);
  EXPECT_EQ(graph::reads_of(third, 2), (std::vector<Rank>{3, 4}));
  EXPECT_DOUBLE_EQ(third.self_weight, 1.0 / 3);
  EXPECT_EQ(graph::readers_of(schedule->round(3, 0), 3), (std::vector<Rank>{0, 1, 2, 4, 5}));
  EXPECT_EQ(graph::readers_of(schedule->round(5, 0), 5), (std::vector<Rank>{1}));
  for (const char* topology : {"complete", "exp", "aer", "ring-static", "exp-directed"}) {
    const auto any = make_node_schedule({.topology = topology, .shape = graph::Shape({3, 1, 2, 4})},
                                        {0, 0, 0, 1, 2, 2, 3, 3, 3, 3});
    for (std::int64_t t = 0; t < any->period(); ++t) {
      for (Rank a = 0; a < any->workers(); ++a) {
        for (Rank b = 0; b < any->workers(); ++b) {
          const auto reads = graph::reads_of(any->round(a, t), a),
                     readers = graph::readers_of(any->round(b, t), b);
          EXPECT_EQ(std::ranges::count(reads, b), std::ranges::count(readers, a))
              << topology << ", " << a << ", " << b;
        }
      }
      if (any->directed()) continue;
      EXPECT_LT((graph::mixing_matrix(*any, t).rowwise().sum().array() - 1).abs().maxCoeff(), 1e-12)
          << topology;
    }
  }
}

// Over machines every worker of two nodes meets all of them, so that one model travels; on one machine a
// worker meets its like.
TEST(NodeSchedule, GroupsFollowThePlacement) {
  const graph::ScheduleOptions options{.topology = "complete", .shape = graph::Shape({2, 2})};
  EXPECT_EQ(make_node_schedule(options, {0, 0, 0, 0})->round(1, 0).group, (std::vector<Rank>{1, 3}));
  EXPECT_EQ(make_node_schedule(options, {0, 0, 1, 1})->round(1, 0).group, (std::vector<Rank>{0, 1, 2, 3}));
  for (const char* topology : {"complete", "exp", "aer", "ring-static", "exp-directed"}) {
    const auto schedule = make_node_schedule({.topology = topology, .shape = graph::Shape({3, 3, 3, 3})},
                                             {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3});
    for (std::int64_t t = 0; t < schedule->period(); ++t) {
      const Eigen::MatrixXd w = graph::mixing_matrix(*schedule, t);
      EXPECT_LT((w.colwise().sum().array() - 1).abs().maxCoeff(), 1e-12) << topology;
    }
  }
}

}  // namespace
}  // namespace kith::engine

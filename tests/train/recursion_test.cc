// Four workers, every algorithm and optimizer on every topology: the recursion of the page.
#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;

constexpr int kRecursionWorkers = 4, kRecursionSteps = 60;

// The optimizers are looped over inside a case: a process that loads torch is dearer than what it tests.
const std::vector<std::string> kOptimizers{"sgd", "adam", "adamw", "accum-adam", "accum-adamw"};

struct Case {
  std::string algorithm, topology;
};

plain::Rule rule_of(const std::string& optimizer) {
  plain::Rule rule;
  rule.optimizer = optimizer;
  rule.lr = optimizer == "sgd" ? 0.05 : 4e-3;
  rule.decay = 0.03;
  rule.momentum = optimizer == "sgd" ? 0.8 : 0;
  rule.beta2 = 0.98;
  rule.commit_every = 4;
  return rule;
}

graph::ScheduleOptions schedule_of(const std::string& topology) {
  graph::ScheduleOptions schedule;
  schedule.topology = topology;
  schedule.shape = graph::Shape(topology == "aer" ? std::vector{2, 2} : std::vector{4});
  schedule.seed = kSeed;
  schedule.degree = topology == "random-directed" ? 2 : 1;
  return schedule;
}

void set_schedule(Options& options, const std::string& topology) {
  const graph::ScheduleOptions schedule = schedule_of(topology);
  options.topology = schedule.topology;
  options.nodes = schedule.shape.text();
  options.topology_seed = schedule.seed;
  options.degree = schedule.degree;
}

// Written out by hand, but for the random one, whose draws only the schedule knows.
plain::Matrix mixing(const std::string& topology, int t) {
  if (topology == "complete") return plain::complete4(t);
  if (topology == "ring") return plain::ring4(t);
  if (topology == "exp") return plain::exp4(t);
  if (topology == "aer") return plain::aer2x2(t);
  if (topology == "exp-directed") return plain::exp_directed4(t);
  const auto schedule = graph::make_schedule(schedule_of(topology));
  plain::Matrix w(kRecursionWorkers, plain::Vector(kRecursionWorkers, 0.0));
  for (int i = 0; i < kRecursionWorkers; ++i) {
    for (const graph::Term& term : graph::row_of(schedule->round(i, t), i)) {
      w[static_cast<std::size_t>(i)][static_cast<std::size_t>(term.rank)] = term.weight;
    }
  }
  return w;
}

class Recursion : public ::testing::TestWithParam<Case> {};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* algorithm : {"awc", "atc", "dsgt"}) {
    for (const char* topology : {"complete", "exp", "aer", "ring"})
      all.push_back({algorithm, topology});
  }
  for (const char* topology : {"exp-directed", "random-directed"})
    all.push_back({"sgp", topology});
  for (const char* algorithm : {"allreduce", "none"})
    all.push_back({algorithm, "complete"});
  return all;
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.algorithm + "_" + info.param.topology;
  for (char& c : name)
    c = c == '-' ? '_' : c;
  return name;
}

Options options_of(const std::string& algorithm, const plain::Rule& rule) {
  Options options = options_for(algorithm, rule.optimizer);
  options.momentum = rule.momentum;
  options.beta2 = rule.beta2;
  options.commit_every = rule.commit_every;
  options.bucket_bytes = 100;  // several buckets
  options.stagger = false;     // all at the round of the loops
  options.lr = rule.lr;
  options.weight_decay = rule.decay;
  return options;
}

plain::Problem problem_of(const std::string& topology) {
  plain::Problem problem;
  problem.workers = kRecursionWorkers;
  problem.steps = kRecursionSteps;
  problem.start = start_values();
  problem.gradient = [](int rank, int t, const plain::Vector& x) {
    return plain::gradient(plain::Network{}, x, batch_of(rank, t));
  };
  problem.mixing = [topology](int t) { return mixing(topology, t); };
  return problem;
}

TEST_P(Recursion, EqualsThePlainLoops) {
  const Case& c = GetParam();
  for (const std::string& optimizer : kOptimizers) {
    const plain::Rule rule = rule_of(optimizer);
    const auto expected = plain::train(c.algorithm, rule, problem_of(c.topology));
    Options options = options_of(c.algorithm, rule);
    set_schedule(options, c.topology);
    const auto in_double =
        train_world("inproc", kRecursionWorkers, options, kRecursionSteps, torch::kFloat64);
    const auto in_float = train_world("inproc", kRecursionWorkers, options, kRecursionSteps, torch::kFloat32);
    for (std::size_t i = 0; i < kRecursionWorkers; ++i) {
      EXPECT_LT(largest_difference(in_double[i], expected[i]), 1e-10)
          << optimizer << ", worker " << i << ", seed " << kSeed;
      EXPECT_LT(largest_difference(in_float[i], expected[i]), 1e-5)
          << optimizer << ", worker " << i << ", seed " << kSeed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Recursion, ::testing::ValuesIn(cases()), name_of_case);

// The recursions are held against torch too, so that a common misreading cannot hide: the hand-written
// gradient is torch's.
TEST(PlainNetwork, HasTorchsGradient) {
  Network network = make_network();
  loss_of(network, batch_of(2, 7)).backward();
  std::vector<double> by_torch;
  for (const torch::Tensor& p : network->parameters()) {
    const torch::Tensor g = p.grad().cpu().reshape({-1}).contiguous();
    by_torch.insert(by_torch.end(), g.data_ptr<double>(), g.data_ptr<double>() + g.numel());
  }
  EXPECT_LT(largest_difference(by_torch, plain::gradient(plain::Network{}, start_values(), batch_of(2, 7))),
            1e-14);
}

// One process that sees the whole batch.
std::vector<double> train_whole_batch(const plain::Rule& rule) {
  plain::Problem problem;
  problem.steps = kRecursionSteps;
  problem.start = start_values();
  problem.gradient = [](int, int t, const plain::Vector& x) {
    plain::Batch whole;
    for (int rank = 0; rank < kRecursionWorkers; ++rank) {
      const plain::Batch part = batch_of(rank, t);
      whole.x.insert(whole.x.end(), part.x.begin(), part.x.end());
      whole.y.insert(whole.y.end(), part.y.begin(), part.y.end());
    }
    return plain::gradient(plain::Network{}, x, whole);
  };
  return plain::train("none", rule, problem)[0];
}

TEST(AllReduce, EqualsOneProcessWithTheWholeBatch) {
  for (const std::string& optimizer : kOptimizers) {
    const plain::Rule rule = rule_of(optimizer);
    const std::vector<double> expected = train_whole_batch(rule);
    for (const auto& model :
         train_world("inproc", kRecursionWorkers, options_of("allreduce", rule), kRecursionSteps)) {
      EXPECT_LT(largest_difference(model, expected), 1e-10) << optimizer << ", seed " << kSeed;
    }
  }
}

// With SGD (momentum and coupled decay too) the step is linear in the gradient, so stepping first and
// averaging everybody afterwards is the same as averaging the gradients.
TEST(AdaptThenCombine, OnTheCompleteGraphWithSgdEqualsTheWholeBatch) {
  const plain::Rule rule = rule_of("sgd");
  const std::vector<double> expected = train_whole_batch(rule);
  for (const auto& model :
       train_world("inproc", kRecursionWorkers, options_of("atc", rule), kRecursionSteps)) {
    EXPECT_LT(largest_difference(model, expected), 1e-10) << "seed " << kSeed;
  }
}

TEST(AdaptThenCombine, OnTheCompleteGraphWithAdamDoesNot) {
  const plain::Rule rule = rule_of("adam");
  const auto models = train_world("inproc", kRecursionWorkers, options_of("atc", rule), kRecursionSteps);
  EXPECT_GT(largest_difference(models[0], train_whole_batch(rule)), 1e-4);
}

TEST(Bits, AreTheSameInTwoRuns) {
  const Options options = options_of("awc", rule_of("accum-adamw"));
  EXPECT_EQ(train_world("inproc", kRecursionWorkers, options, kRecursionSteps, torch::kFloat32),
            train_world("inproc", kRecursionWorkers, options, kRecursionSteps, torch::kFloat32));
}

}  // namespace
}  // namespace kith::train

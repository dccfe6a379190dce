// Workers die, come and leave where nodes are models: the others go on, and nodes stay one model.
#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "tests/engine/views_support.h"
#include "tests/support/deadly_store.h"

namespace kith::engine {
namespace {

constexpr int kSteps = 20;
const std::vector<int> kNodes{3, 2, 1};
constexpr int kWorkers = 6;

EngineOptions nodes_of(const std::string& algorithm, const std::string& topology) {
  EngineOptions options = reforming(algorithm, topology);
  options.schedule.shape = graph::Shape(kNodes);
  options.inside = "allreduce";
  return options;
}

// The survivors know the same members and the same mean, and those of a node hold the same model.
void expect_nodes(const std::vector<std::string>& reports, const std::set<int>& victims) {
  const graph::Shape shape(kNodes);
  std::string members;
  for (int rank = 0; rank < kWorkers; ++rank)
    if (!victims.contains(rank)) members += cat(rank, " ");
  std::map<int, std::set<std::string>> models;
  std::set<std::string> means;
  for (int rank = 0; rank < kWorkers; ++rank) {
    if (victims.contains(rank)) continue;
    const Account own = read(reports[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(own.members, members) << "worker " << rank;
    models[shape.node_of(rank)].insert(own.model);
    means.insert(own.mean);
  }
  EXPECT_EQ(means.size(), 1u);
  for (const auto& [node, of_node] : models)
    EXPECT_EQ(of_node.size(), 1u) << "the workers of node " << node << " hold different models";
}

struct Case {
  std::string algorithm, topology, backend;
  std::set<int> victims;
};
class DeathInANode : public ::testing::TestWithParam<Case> {};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* backend : {"inproc", "shm"}) {
    for (const auto& [algorithm, topology] :
         std::vector<std::pair<std::string, std::string>>{{"awc", "complete"},
                                                          {"awc", "aer"},
                                                          {"atc", "ring-static"},
                                                          {"dsgt", "exp"},
                                                          {"sgp", "exp-directed"},
                                                          {"diloco", "complete"},
                                                          {"none", "complete"}}) {
      for (const std::set<int>& victims :
           {std::set{0}, std::set{1}, std::set{5}, std::set{3, 4}, std::set{0, 2}})
        all.push_back({algorithm, topology, backend, victims});
    }
  }
  return all;
}
std::string name_of_case(const ::testing::TestParamInfo<Case>& test) {
  std::string name = cat(test.param.algorithm, "_", test.param.topology, "_", test.param.backend, "_without");
  for (const int victim : test.param.victims)
    name += cat("_", victim);
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Inside, DeathInANode, ::testing::ValuesIn(cases()), name_of_case);

// Of a node some die, or all, or its only worker.
TEST_P(DeathInANode, TheOthersGoOnAndNodesStayOneModel) {
  const auto reports = support::run_world(GetParam().backend, kWorkers, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, nodes_of(GetParam().algorithm, GetParam().topology));
    quadratic.engine().start();
    quadratic.engine().gather(0);  // everybody has the first model
    run_on(quadratic, 5 + worker.rank % 2);
    if (GetParam().victims.contains(worker.rank)) support::die(worker);
    run_on(quadratic, kSteps);
    return account(quadratic);
  });
  expect_nodes(reports, GetParam().victims);
}

// The second dies while the first loss is being dealt with; also while its node takes one state.
struct SecondDeath {
  std::string part;
  int victim = 0;
};
class SecondDeathInANode : public ::testing::TestWithParam<SecondDeath> {};
std::vector<SecondDeath> second_deaths() {
  std::vector<SecondDeath> all;
  for (const char* part : {"/at/", "/view", "/open/", "/outcome"}) {
    for (const int victim : {0, 1, 4})
      all.push_back({part, victim});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Inside, SecondDeathInANode, ::testing::ValuesIn(second_deaths()),
                         [](const auto& test) {
                           return cat(
                               test.param.part.substr(1, 2) == "at" ? "at" : test.param.part.substr(1, 4),
                               "_worker", test.param.victim);
                         });

TEST_P(SecondDeathInANode, TheOthersGoOnAndNodesStayOneModel) {
  const auto reports = support::run_world("shm", kWorkers, [&](support::Worker& worker) {
    support::DeadlyStore store(worker, worker.rank == GetParam().victim ? GetParam().part : "");
    support::Worker own{worker.rank, worker.size, worker.transport, store};
    Quadratic<double> quadratic(own, nodes_of("awc", "complete"));
    quadratic.engine().start();
    quadratic.engine().gather(0);  // everybody has the first model
    run_on(quadratic, 5);
    if (worker.rank == 2) support::die(worker);
    run_on(quadratic, kSteps);
    return account(quadratic);
  });
  // Only the speaker writes the view and its outcome.
  const bool dies = GetParam().part == "/at/" || GetParam().part == "/open/" || GetParam().victim == 0;
  expect_nodes(reports, dies ? std::set<int>{2, GetParam().victim} : std::set<int>{2});
}

// One after the other, down to one worker, which is a node of its own.
TEST(InsideViews, OneIsEnough) {
  const auto reports = support::run_world("shm", kWorkers, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, nodes_of("awc", "aer"));
    quadratic.engine().start();
    quadratic.engine().gather(0);  // everybody has the first model
    run_on(quadratic, 3 * (worker.rank + 1));
    if (worker.rank < kWorkers - 1) support::die(worker);
    run_on(quadratic, 24);
    return account(quadratic);
  });
  expect_nodes(reports, {0, 1, 2, 3, 4});
}

// Its node's others average gradients again, in the step that they are in.
TEST(InsideViews, TheLossIsThatOfTheOthersAlone) {
  const auto reports = support::run_world("inproc", 3, [&](support::Worker& worker) {
    EngineOptions options = reforming("awc", "complete");
    options.optimizer = {.name = "sgd"};
    options.schedule.shape = graph::Shape({3});
    options.inside = "allreduce";
    Quadratic<double> quadratic(worker, options);
    quadratic.engine().start();
    quadratic.engine().gather(0);  // everybody has the first model
    run_on(quadratic, 3);
    if (worker.rank == 2) support::die(worker);
    run_on(quadratic, 400);
    return account(quadratic);
  });
  // The same job of two from the beginning ends at the same minimum.
  const auto alone = support::run_world("inproc", 2, [&](support::Worker& worker) {
    EngineOptions options = reforming("allreduce", "complete");
    options.optimizer = {.name = "sgd"};
    Quadratic<double> quadratic(worker, options);
    quadratic.engine().start();
    run_on(quadratic, 400);
    return text_of(quadratic.model());
  });
  const auto numbers = [](std::string text) {
    std::erase(text, '|');
    std::vector<double> all;
    for (std::istringstream in(text); in >> text;)
      all.push_back(std::strtod(text.c_str(), nullptr));
    return all;
  };
  const std::vector<double> got = numbers(read(reports[0]).model), expected = numbers(alone[0]);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t k = 0; k < got.size(); ++k)
    EXPECT_NEAR(got[k], expected[k], 1e-9);
}

// A run without faults gives the same bits with and without views.
TEST(InsideViews, WithoutALossNothingChanges) {
  EngineOptions with = nodes_of("awc", "aer"), without = with;
  without.reforms = false;
  EXPECT_EQ(train<float>("inproc", kWorkers, with, 10), train<float>("inproc", kWorkers, without, 10));
}

// Who leaves mixes on to the view without it, and the rest of its node is one model again.
TEST(InsideViews, OneLeaves) {
  const auto reports = support::run_world("inproc", kWorkers, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, nodes_of("awc", "ring-static"));
    quadratic.engine().start();
    quadratic.engine().gather(0);  // everybody has the first model
    run_on(quadratic, 5);
    if (worker.rank == 1) {
      quadratic.engine().finish();
      return std::string();
    }
    const Deadline deadline = support::in_time();
    while (quadratic.engine().left().empty() && SteadyClock().now() < deadline)
      run_on(quadratic, static_cast<int>(quadratic.engine().steps()) + 1);
    EXPECT_EQ(quadratic.engine().left(), std::vector{WorkerId{1}});
    run_on(quadratic, static_cast<int>(quadratic.engine().view_began()) + 5);
    return account(quadratic);
  });
  expect_nodes(reports, {1});
}

}  // namespace
}  // namespace kith::engine

// Workers die, and the others go on.
#include <cstring>
#include <fstream>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "tests/engine/views_support.h"
#include "tests/support/deadly_store.h"

namespace kith::engine {
namespace {

constexpr int kSteps = 16;

struct Case {
  std::string algorithm, topology, backend;
  int victim = 0;
  std::optional<DType> wire = {};
};
class Death : public ::testing::TestWithParam<Case> {};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& backend : support::all_backends()) {
    for (const auto& [algorithm, topology] :
         std::vector<std::pair<std::string, std::string>>{{"awc", "complete"},
                                                          {"awc", "aer"},
                                                          {"atc", "ring"},
                                                          {"dsgd", "exp"},
                                                          {"d-adam", "ring-static"},
                                                          {"dsgt", "exp"},
                                                          {"mc-dsgt", "ring"},
                                                          {"sgp", "exp-directed"},
                                                          {"choco", "ring-static"},
                                                          {"cd-adam", "exp"},
                                                          {"q-push", "exp-directed"},
                                                          {"diloco", "complete"},
                                                          {"noloco", "matching"},
                                                          {"allreduce", "complete"},
                                                          {"none", "complete"}}) {
      for (const int victim : {0, 3})
        all.push_back({algorithm, topology, backend, victim});
    }
    all.push_back({"awc", "aer", backend, 3, DType::i8});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Views, Death, ::testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = cat(test.param.algorithm, "_", test.param.topology, "_", test.param.backend, "_worker",
                         test.param.victim, test.param.wire ? "_int8" : "");
  std::ranges::replace(name, '-', '_');
  return name;
});

void expect_survivors(const std::vector<std::string>& reports, const std::set<int>& victims,
                      const std::string& algorithm) {
  std::string members;
  for (int rank = 0; rank < static_cast<int>(reports.size()); ++rank)
    if (!victims.contains(rank)) members += cat(rank, " ");
  std::set<std::string> models, means;
  for (int rank = 0; rank < static_cast<int>(reports.size()); ++rank) {
    if (victims.contains(rank)) continue;
    const Account own = read(reports[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(own.members, members) << "worker " << rank;
    models.insert(own.model);
    means.insert(own.mean);
  }
  EXPECT_EQ(means.size(), 1u);
  if (algorithm == "allreduce") {
    EXPECT_EQ(models.size(), 1u);
  }
}

TEST_P(Death, TheOthersGoOnToTheEnd) {
  const std::string &algorithm = GetParam().algorithm, &topology = GetParam().topology,
                    &backend = GetParam().backend;
  const int victim = GetParam().victim;
  const auto reports = support::run_world(backend, 4, [&](support::Worker& worker) {
    EngineOptions options = reforming(algorithm, topology);
    options.wire = GetParam().wire;
    Quadratic<double> quadratic(worker, options);
    quadratic.engine().start();
    quadratic.engine().gather(0);  // everybody has the first model
    run_on(quadratic, 5 + worker.rank % 2);
    if (worker.rank == victim) support::die(worker);
    run_on(quadratic, kSteps);
    return account(quadratic);
  });
  expect_survivors(reports, {victim}, algorithm);
}

// With the dead go its own mass and what was on its way to it, in the rounds before the view: two of them
// here.
TEST(Views, PushSumKeepsTheMassThatSurvivorsHold) {
  const auto reports = support::run_world("inproc", 5, [&](support::Worker& worker) {
    EngineOptions options = reforming("sgp", "exp-directed");
    Quadratic<double> quadratic(worker, options);
    quadratic.engine().start();
    quadratic.engine().gather(0);  // everybody has the first model
    run_on(quadratic, 6);
    if (worker.rank == 4) support::die(worker);
    run_on(quadratic, 40);
    double weight = 0;
    for (const StateSpan& span : quadratic.engine().state())
      if (span.name.ends_with("bucket0/weight")) std::memcpy(&weight, span.bytes.data(), sizeof(weight));
    const auto all = quadratic.engine().gather(weight);
    return cat(std::accumulate(all.begin(), all.end(), 0.0));
  });
  for (int rank = 0; rank < 4; ++rank) {
    const double mass = std::stod(reports[static_cast<std::size_t>(rank)]);
    EXPECT_GE(mass, 3);
    EXPECT_LE(mass, 4);
  }
}

// Some are in a gather when worker 2 dies instead of coming to it.
TEST_P(Death, InAnOperationWithEverybodyItIsDoneAmongTheRest) {
  const std::string &algorithm = GetParam().algorithm, &topology = GetParam().topology,
                    &backend = GetParam().backend;
  const int victim = GetParam().victim;
  const auto reports = support::run_world(backend, 4, [&](support::Worker& worker) {
    EngineOptions options = reforming(algorithm, topology);
    options.wire = GetParam().wire;
    Quadratic<double> quadratic(worker, options);
    quadratic.engine().start();
    quadratic.engine().gather(0);  // everybody has the first model
    run_on(quadratic, 4);
    quadratic.engine().gather(1);
    if (worker.rank == victim) support::die(worker);
    const auto all = quadratic.engine().gather(worker.rank);
    EXPECT_EQ(all.size(), 3u);
    EXPECT_DOUBLE_EQ(std::accumulate(all.begin(), all.end(), 0.0), 6 - victim);
    run_on(quadratic, 8);
    std::vector<double> numbers{1.0 * worker.rank, 1};
    quadratic.engine().mean(numbers);
    EXPECT_DOUBLE_EQ(numbers[0], (6.0 - victim) / 3);
    run_on(quadratic, kSteps);
    return account(quadratic);
  });
  expect_survivors(reports, {victim}, algorithm);
}

// A second one dies while the first loss is being dealt with: before it says where it is, before it proposes,
// before its windows are open, before it says that they are, before it says that the view stands.
struct SecondDeath {
  std::string algorithm, part;
  int victim = 0;
};
class DeathInAChange : public ::testing::TestWithParam<SecondDeath> {};
std::vector<SecondDeath> second_deaths() {
  std::vector<SecondDeath> all;
  for (const char* algorithm : {"awc", "atc", "allreduce"}) {
    for (const char* part : {"/at/", "/view", "/open/", "/outcome"}) {
      for (const int victim : {0, 2})
        all.push_back({algorithm, part, victim});
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Views, DeathInAChange, ::testing::ValuesIn(second_deaths()), [](const auto& test) {
  return cat(test.param.algorithm, "_",
             test.param.part.substr(1, 4) == "at/" ? "at" : test.param.part.substr(1, 4), "_worker",
             test.param.victim);
});

TEST_P(DeathInAChange, TheOthersGoOnToTheEnd) {
  const std::string &algorithm = GetParam().algorithm, &part = GetParam().part;
  const int victim = GetParam().victim;
  const auto reports = support::run_world("shm", 5, [&](support::Worker& worker) {
    support::DeadlyStore store(worker, worker.rank == victim ? part : "");
    support::Worker own{worker.rank, worker.size, worker.transport, store};
    Quadratic<double> quadratic(own, reforming(algorithm, "complete"));
    quadratic.engine().start();
    quadratic.engine().gather(0);  // everybody has the first model
    run_on(quadratic, 5);
    if (worker.rank == 3) support::die(worker);
    run_on(quadratic, kSteps);
    return account(quadratic);
  });
  // Only the speaker writes the view and its outcome.
  const bool dies = part == "/at/" || part == "/open/" || victim == 0;
  expect_survivors(reports, dies ? std::set<int>{3, victim} : std::set<int>{3}, algorithm);
}

// Down to one.
TEST(Views, OneIsEnough) {
  const auto reports = support::run_world("shm", 4, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, reforming("awc", "aer"));
    quadratic.engine().start();
    quadratic.engine().gather(0);  // everybody has the first model
    run_on(quadratic, 3 * (worker.rank + 1));
    if (worker.rank < 3) support::die(worker);
    run_on(quadratic, 20);
    return account(quadratic);
  });
  expect_survivors(reports, {0, 1, 2}, "awc");
}

// A run without faults gives the same bits with and without views.
TEST(Views, WithoutALossNothingChanges) {
  EngineOptions with = reforming("awc", "aer"), without = with;
  without.reforms = false;
  EXPECT_EQ(train<float>("inproc", 4, with, 10), train<float>("inproc", 4, without, 10));
}

// A topology that fits only so many workers ends the run, and says so.
TEST(Views, ATopologyThatCannotShrinkIsAnError) {
  const support::TempFolder folder;
  const auto file = folder.path() / "topology.json";
  std::ofstream(file) << R"({"workers": 3, "rounds": [{"edges": [[0, 1], [1, 2]]}]})";
  support::run_world("inproc", 3, [&](support::Worker& worker) {
    EngineOptions options = reforming("awc", "file");
    options.schedule.file = file.string();
    Quadratic<double> quadratic(worker, options);
    quadratic.engine().start();
    quadratic.engine().gather(0);  // everybody has the first model
    run_on(quadratic, 3);
    if (worker.rank == 2) support::die(worker);
    std::string text = "no failure";
    try {
      run_on(quadratic, 2000);
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_NE(text.find("cannot go on with 2 workers"), std::string::npos) << text;
    return std::string();
  });
}

}  // namespace
}  // namespace kith::engine

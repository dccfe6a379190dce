// Workers join a running job, and leave it on purpose.
#include <atomic>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/engine/roster.h"
#include "kith/launch/admissions.h"
#include "kith/optim/methods.h"
#include "tests/engine/join_support.h"

namespace kith::engine {
namespace {

class Joining : public ::testing::TestWithParam<Case> {};
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& algorithm : all_methods())
    all.push_back({algorithm, "inproc"});
  for (const std::string& backend : support::process_backends()) {
    for (const char* algorithm : {"awc", "sgp", "allreduce"})
      all.push_back({algorithm, backend});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Join, Joining, ::testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = cat(test.param.algorithm, "_", test.param.backend);
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST_P(Joining, ANewcomerTakesOverTheStateAndTrainsAlong) {
  const std::string &algorithm = GetParam().algorithm, &backend = GetParam().backend;
  const auto shared = std::make_shared<comm::InprocGenerations>();
  const auto reports = support::run_world(backend, kFounders + 1, [&](support::Worker& worker) {
    if (worker.rank == kFounders) worker.store.wait("twenty steps", support::in_time());
    Elastic elastic(worker, backend, kFounders, shared);
    Quadratic<double> quadratic(elastic.worker, options_of(algorithm));
    quadratic.engine().start();
    if (worker.rank < kFounders) step_to(quadratic, 20);
    // All have made them: whoever gives its state may be behind the others.
    if (worker.rank < kFounders && worker.store.add("at twenty", 1) == kFounders)
      worker.store.set("twenty steps", "");
    step_until(quadratic, "0 1 2 3 ");
    EXPECT_EQ(quadratic.engine().joined().has_value(), worker.rank == kFounders);
    if (quadratic.engine().joined()) {
      EXPECT_LE(quadratic.engine().joined()->step, quadratic.engine().view_began());
      EXPECT_GE(quadratic.engine().joined()->step, 20);
    }
    step_to(quadratic, quadratic.engine().view_began() + kMore);
    return account(quadratic);
  });
  expect_equal(reports, {0, 1, 2, 3});
}

// Where nodes are models it comes to the smallest of its machine, and is one model with who is there.
TEST(Join, ANewcomerBecomesOneModelWithItsNode) {
  const auto shared = std::make_shared<comm::InprocGenerations>();
  const auto reports = support::run_world("inproc", kFounders + 1, [&](support::Worker& worker) {
    come_after_founders(worker);
    Elastic elastic(worker, "inproc", kFounders, shared);
    EngineOptions options = options_of("awc");
    options.inside = "allreduce";
    options.schedule.shape = graph::Shape({2, 1});
    Quadratic<double> quadratic(elastic.worker, options);
    start(worker, quadratic);
    step_until(quadratic, "0 1 2 3 ");
    EXPECT_EQ(quadratic.engine().options().schedule.shape.text(), graph::Shape({2, 2}).text());
    step_to(quadratic, quadratic.engine().view_began() + kMore);
    return text_of(quadratic.model());
  });
  EXPECT_EQ(reports[0], reports[1]);
  EXPECT_EQ(reports[2], reports[3]);
  EXPECT_NE(reports[0], reports[2]) << "nodes are models of their own";
}

// A newcomer has a weight of its own; one who leaves hands over what it has.
TEST(Join, PushSumAccountsForItsMass) {
  const auto shared = std::make_shared<comm::InprocGenerations>();
  const auto reports = support::run_world("inproc", kFounders + 1, [&](support::Worker& worker) {
    Elastic elastic(worker, "inproc", kFounders, shared);
    Quadratic<double> quadratic(elastic.worker, options_of("sgp"));
    quadratic.engine().start();
    step_until(quadratic, "0 1 2 3 ");
    step_to(quadratic, quadratic.engine().view_began() + kMore);
    EXPECT_NEAR(sum(quadratic.engine().gather(weight_of(quadratic))), 4, 1e-9);
    if (worker.rank == 1) {
      quadratic.engine().finish();
      return std::string("left");
    }
    step_until(quadratic, "0 2 3 ");
    EXPECT_EQ(quadratic.engine().left(), std::vector{WorkerId{1}});
    step_to(quadratic, quadratic.engine().view_began() + kMore);
    EXPECT_NEAR(sum(quadratic.engine().gather(weight_of(quadratic))), 4, 1e-9);
    return account(quadratic);
  });
  expect_equal(reports, {0, 2, 3});
}

// Mass is model times weight. Without gradients nothing but mixing moves it, so what leaves and what comes
// must add up.
TEST(Join, PushSumKeepsTheMeanWhenOneLeaves) {
  const auto reports = support::run_world("inproc", 4, [&](support::Worker& worker) {
    EngineOptions options = options_of("sgp");
    options.same_start = false;
    Quadratic<double> quadratic(worker, options);
    quadratic.engine().start();
    const std::vector<SegmentInput> nothing(4);
    const auto mass = [&] {
      const std::vector<double> model = quadratic.model();
      return weight_of(quadratic) * std::accumulate(model.begin(), model.begin() + 7, 0.0);
    };
    const double before = sum(quadratic.engine().gather(mass()));
    for (int t = 0; t < 2; ++t)
      quadratic.engine().step(nothing, {});
    if (worker.rank == 0) {
      quadratic.engine().finish();
      return std::string();
    }
    while (members_of(quadratic) != "1 2 3 ") {
      quadratic.engine().step(nothing, {});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    while (quadratic.engine().steps() < quadratic.engine().view_began() + 3)
      quadratic.engine().step(nothing, {});
    EXPECT_NEAR(sum(quadratic.engine().gather(mass())), before, 1e-9);
    EXPECT_NEAR(sum(quadratic.engine().gather(weight_of(quadratic))), 4, 1e-9);
    return std::string();
  });
}

class Leaving : public ::testing::TestWithParam<Case> {};
std::vector<Case> leaving_cases() {
  std::vector<Case> all;
  for (const std::string& algorithm : all_methods())
    all.push_back({algorithm, "inproc"});
  for (const std::string& backend : support::process_backends()) {
    for (const char* algorithm : {"awc", "sgp", "allreduce"})
      all.push_back({algorithm, backend});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Join, Leaving, ::testing::ValuesIn(leaving_cases()), [](const auto& test) {
  std::string name = cat(test.param.algorithm, "_", test.param.backend);
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST_P(Leaving, TheOthersGoOnAndNobodyIsLost) {
  const std::string &algorithm = GetParam().algorithm, &backend = GetParam().backend;
  const auto reports = support::run_world(backend, 4, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options_of(algorithm));
    quadratic.engine().start();
    step_to(quadratic, 8);
    if (worker.rank == 0) {
      quadratic.engine().finish();
      return std::string();
    }
    double missing = 0;
    while (members_of(quadratic) != "1 2 3 ") {
      const StepReport report = quadratic.step();
      EXPECT_TRUE(report.lost.empty());
      missing += report.missing_weight;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(missing, 0);
    EXPECT_EQ(quadratic.engine().left(), std::vector{WorkerId{0}});
    step_to(quadratic, quadratic.engine().view_began() + kMore);
    return account(quadratic);
  });
  expect_equal(reports, {1, 2, 3});
}

}  // namespace
}  // namespace kith::engine

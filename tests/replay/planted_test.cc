// Mistakes that are planted are found.
#include <algorithm>
#include <iostream>

#include <gtest/gtest.h>

#include "kith/base/text.h"
#include "tests/replay/scenario.h"

namespace kith::replay {
namespace {

constexpr std::uint64_t kMostSeeds = 400;

class Planted : public ::testing::TestWithParam<Bug> {};
INSTANTIATE_TEST_SUITE_P(Replay, Planted, ::testing::ValuesIn(kBugs), [](const auto& test) {
  std::string name(name_of(test.param));
  std::ranges::replace(name, ' ', '_');
  return name;
});

TEST_P(Planted, IsFoundAndTheSeedFindsItAgain) {
  std::vector<Scenario> scenarios;
  for (std::uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    DrawOptions options{.bug = GetParam()};
    if (GetParam() == Bug::weight_is_dropped) options.algorithm = seed % 2 == 0 ? "sgp" : "q-push";
    Scenario scenario = draw(seed, options);
    if (!scenario.slow) scenarios.push_back(scenario);
  }
  std::string problem;
  Scenario found;
  std::uint64_t tried = 0;
  replay_all(scenarios, [&](const Scenario& scenario, const Verdict& verdict) {
    ++tried;
    problem = verdict.problem;
    found = scenario;
    return problem.empty();
  });
  ASSERT_NE(problem, "") << tried << " seeds do not find it";
  std::cout << "seed " << found.seed << ", the " << tried << "th: " << problem << "\n";
  replay_all({found}, [&](const Scenario&, const Verdict& verdict) {
    EXPECT_EQ(verdict.problem, problem);
    return true;
  });
}

}  // namespace
}  // namespace kith::replay

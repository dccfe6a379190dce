// Runs whose every interleaving, loss and death comes from a seed, under the shipped engine.
#include <cstdlib>
#include <iostream>
#include <map>

#include <gtest/gtest.h>

#include "kith/base/text.h"
#include "tests/replay/scenario.h"

namespace kith::replay {
namespace {

constexpr std::uint64_t kPart = 100;
constexpr int kParts = 10, kPartsOfNodes = 3;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

// What a death was in the middle of, without numbers and names.
std::string phase_of(const std::string& at) {
  for (const char* key : {"/called", "/at/", "/view", "/open/", "/outcome"})
    if (at.starts_with("store: ") && at.find(key) != std::string::npos) return cat("store", key);
  return at.substr(0, at.find(' '));
}

// A hundred seeds each. KITH_SEED=N runs that one alone, KITH_FIRST_SEED=N begins elsewhere.
class Seeds : public ::testing::TestWithParam<int> {
 protected:
  static std::vector<Scenario> scenarios(const DrawOptions& options) {
    const bool one = std::getenv("KITH_SEED") != nullptr;
    const std::uint64_t first =
        one ? number_from("KITH_SEED", 1)
            : number_from("KITH_FIRST_SEED", 1) + static_cast<std::uint64_t>(GetParam()) * kPart;
    std::vector<Scenario> all;
    for (std::uint64_t k = 0; k < (one ? 1 : kPart); ++k)
      all.push_back(draw(first + k, options));
    return all;
  }
  static void expect_all_hold(const DrawOptions& options);
};
INSTANTIATE_TEST_SUITE_P(Replay, Seeds, ::testing::Range(0, kParts));

// Where nodes are models.
class SeedsOfNodes : public Seeds {};
INSTANTIATE_TEST_SUITE_P(Replay, SeedsOfNodes, ::testing::Range(0, kPartsOfNodes));

TEST_P(Seeds, HoldWhateverHappens) {
  expect_all_hold({});
}
TEST_P(SeedsOfNodes, HoldWhateverHappens) {
  expect_all_hold({.nodes_are_models = true});
}

void Seeds::expect_all_hold(const DrawOptions& options) {
  std::map<std::string, int> phases;
  std::uint64_t points = 0, views = 0, overtaken = 0, left_out = 0;
  std::vector<std::string> failures;  // told at the end: the processes of later seeds know nothing of them
  replay_all(scenarios(options), [&](const Scenario& scenario, const Verdict& verdict) {
    if (!verdict.problem.empty()) {
      failures.push_back(cat(verdict.problem, "\n  ", text_of(scenario), "\n  KITH_SEED=", scenario.seed,
                             " runs it alone, KITH_REPLAY_LOG=1 with the workers' logs"));
    }
    for (const std::string& death : verdict.deaths)
      ++phases[phase_of(death)];
    points += verdict.points;
    views += verdict.views;
    overtaken += verdict.overtaken;
    left_out += verdict.left_out;
    return true;
  });
  for (const std::string& failure : failures)
    ADD_FAILURE() << failure;
  std::cout << points << " points, " << views << " views, " << overtaken << " operations overtaken, "
            << left_out << " workers left out; deaths:";
  for (const auto& [phase, count] : phases)
    std::cout << " " << phase << " " << count;
  std::cout << "\n";
}

// The same seed is the same run, decision by decision.
TEST(Replay, ASeedIsARun) {
  std::vector<Scenario> twice;
  for (std::uint64_t seed = 1; seed <= 28; ++seed)
    twice.insert(twice.end(), 2, draw(seed));
  std::vector<std::uint64_t> digests;
  std::uint64_t deaths = 0;
  replay_all(twice, [&](const Scenario&, const Verdict& verdict) {
    digests.push_back(verdict.digest);
    deaths += verdict.deaths.size();
    return true;
  });
  for (std::size_t k = 0; k + 1 < digests.size(); k += 2) {
    EXPECT_EQ(digests[k], digests[k + 1]) << text_of(twice[k]);
    if (k > 0) {
      EXPECT_NE(digests[k], digests[k - 1]);
    }
  }
  EXPECT_GT(deaths, 28u);
}

// Deaths come in every phase of a step and of a view change, and the others go on.
class Phase : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Replay, Phase,
                         ::testing::Values("begin", "publish", "published", "await", "arrived", "release",
                                           "released", "open view", "/called", "/at/", "/view", "/open/",
                                           "/outcome"),
                         [](const auto& test) {
                           std::string name(test.param);
                           std::erase_if(name, [](char c) { return c == '/' || c == ' '; });
                           return cat(name, test.index);
                         });
TEST_P(Phase, ADeathInItIsSurvived) {
  const bool of_change = std::string_view(GetParam()).find_first_of("/ ") != std::string_view::npos;
  std::vector<Scenario> scenarios;
  for (std::uint64_t seed = 1; seed <= 14; ++seed) {
    Scenario scenario = draw(seed);
    scenario.slow = false;
    scenario.faults = {{Fault::Kind::kill, 1, Fault::Since::start, 10 + 7 * seed}};
    Fault death{Fault::Kind::kill, 0, Fault::Since::first_death, seed % 3};
    if (!of_change) death = {Fault::Kind::kill, 0, Fault::Since::start, 3 * seed};
    death.at = GetParam();
    scenario.faults.push_back(death);
    scenarios.push_back(scenario);
  }
  int there = 0;
  std::vector<std::string> failures;
  replay_all(scenarios, [&](const Scenario& scenario, const Verdict& verdict) {
    if (!verdict.problem.empty()) failures.push_back(cat(verdict.problem, "\n  ", text_of(scenario)));
    for (const std::string& death : verdict.deaths)
      there += death.find(GetParam()) != std::string::npos ? 1 : 0;
    return true;
  });
  for (const std::string& failure : failures)
    ADD_FAILURE() << failure;
  EXPECT_GT(there, 0);
}

// The others leave it out, or it comes to itself in time; nobody else ends for it.
TEST(Replay, AWorkerThatStandsStillWhileAViewOpensEndsNobodyElse) {
  std::vector<Scenario> scenarios;
  for (std::uint64_t seed = 1; seed <= 28; ++seed) {
    Scenario scenario = draw(seed);
    // A directed schedule keeps to its patience in rounds too.
    if (scenario.options.algorithm == "sgp" || scenario.options.algorithm == "q-push") continue;
    scenario.slow = true;
    scenario.faults = {{Fault::Kind::kill, 1, Fault::Since::start, 10 + 7 * seed}};
    Fault pause{Fault::Kind::pause, static_cast<int>(2 * (seed % 2)), Fault::Since::first_death, seed % 5};
    pause.at = "open view";
    pause.pause = std::chrono::seconds(45);
    scenario.faults.push_back(pause);
    scenarios.push_back(scenario);
  }
  std::vector<std::string> failures;
  replay_all(scenarios, [&](const Scenario& scenario, const Verdict& verdict) {
    if (!verdict.problem.empty()) failures.push_back(cat(verdict.problem, "\n  ", text_of(scenario)));
    return true;
  });
  for (const std::string& failure : failures)
    ADD_FAILURE() << failure;
}

}  // namespace
}  // namespace kith::replay

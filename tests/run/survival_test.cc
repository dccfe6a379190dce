// kith train whose workers die.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "kith/base/text.h"
#include "tests/run/command_support.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;
using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;

class Survival : public testing::Test {
 protected:
  Words tiny(int steps, const Words& more) const {
    Words words{KITH_BINARY, "train", "--out", run().string()};
    for (const char* setting :
         {"model.layers=1", "model.heads=2", "model.width=16", "model.context=16", "train.batch=2",
          "train.eval_samples=8", "rate.warmup=2", "output.log_every=1"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), {"--set", cat("train.steps=", steps)});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  fs::path run() const { return folder_.path() / "run"; }

  std::size_t steps_of(int worker) const {
    std::ifstream in(run() / cat("worker-", worker) / "metrics.jsonl");
    std::size_t steps = 0;
    for (std::string line; std::getline(in, line);)
      steps += line.starts_with(R"({"kind":"step")") ? 1 : 0;
    return steps;
  }

  std::vector<json> lines_of(int worker, const std::string& kind) const {
    std::vector<json> lines;
    std::ifstream in(run() / cat("worker-", worker) / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      json parsed = json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (parsed.is_discarded()) continue;  // a line that is being written
      if (parsed["kind"] == kind) lines.push_back(std::move(parsed));
    }
    return lines;
  }
  std::size_t losses_told(int worker) const { return lines_of(worker, "loss").size(); }
  std::vector<double> rates_of(int worker) const {
    std::vector<double> rates;
    for (const json& line : lines_of(worker, "step"))
      rates.push_back(line["lr"]);
    return rates;
  }

  void kill(const Command& running, int worker) const {
    const auto process = find_worker(running, worker);
    ASSERT_TRUE(process);
    ASSERT_EQ(::kill(*process, SIGKILL), 0);
  }

  const TestFolder folder_;
};

// Worker 0 dies, then the one that took its place. Evaluations, checkpoints and the model are of those who
// are left.
class EveryAlgorithm : public Survival, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Survival, EveryAlgorithm, testing::Values("awc", "allreduce"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(EveryAlgorithm, WorkersDieAndTheOthersFinish) {
  Command running(folder_.path(),
                  tiny(1000, {"--workers", "4", "--set", cat("algorithm.name=", GetParam()), "--set",
                              "checkpoint.every=50", "--set", "train.eval_every=40"}));
  ASSERT_TRUE(eventually([&] { return steps_of(3) >= 20; })) << running.err();
  kill(running, 0);
  // Two that die together are lost in one view.
  ASSERT_TRUE(eventually([&] { return losses_told(3) == 1; })) << running.err();
  const std::size_t then = steps_of(3);
  ASSERT_TRUE(eventually([&] { return steps_of(3) >= then + 60; })) << running.err();
  kill(running, 1);
  const auto result = running.wait(120s);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("worker 0 was killed by signal 9"), HasSubstr("2 of 4 workers")));
  const json summary = json::parse(read_text(run() / "summary.json"));
  EXPECT_EQ(summary["ending"], "finished");
  EXPECT_EQ(summary["steps"], 1000);
  EXPECT_EQ(summary["views"], 3);
  ASSERT_EQ(summary["lost"].size(), 2u);
  EXPECT_EQ(summary["lost"][0]["worker"], 0);
  EXPECT_EQ(summary["lost"][1]["worker"], 1);
  EXPECT_TRUE(fs::exists(run() / "model.safetensors"));
  EXPECT_EQ(steps_of(2), 1000u);
  for (const json& lost : summary["lost"]) {
    EXPECT_LE(lost["heard"], lost["step"]);
    EXPECT_GT(lost["heard"], 0);
    // A batch of two for each step that nobody heard of, and one drawn for the step that the view began with.
    const int unheard = lost["step"].get<int>() + 1 - lost["heard"].get<int>();
    EXPECT_EQ(lost["samples_again"].get<int>() + lost["samples_unseen"].get<int>(), 2 * unheard);
    ASSERT_TRUE(lost["mean_shift"].is_number());
    EXPECT_EQ(lost["mean_shift"] == 0.0, std::string(GetParam()) == "allreduce");
    EXPECT_LT(lost["mean_shift"], 1.0);
  }
  EXPECT_THAT(result.out, AllOf(HasSubstr("worker 0 is gone: 3 workers go on (view 1)"),
                                HasSubstr("worker 1 was last heard of after "),
                                HasSubstr("takes 6 samples instead of 8; the rate is kept")));
  EXPECT_EQ(losses_told(3), 2u);
}

// The first of a node, then its other: with it goes the node's model.
TEST_F(Survival, WorkersOfANodeThatIsOneModelDie) {
  Command running(folder_.path(), tiny(1000, {"--workers", "4", "--set", "algorithm.inside=allreduce",
                                              "--set", "world.nodes=2x2", "--set", "checkpoint.every=50",
                                              "--set", "train.eval_every=40"}));
  ASSERT_TRUE(eventually([&] { return steps_of(3) >= 20; })) << running.err();
  kill(running, 0);
  ASSERT_TRUE(eventually([&] { return losses_told(3) == 1; })) << running.err();
  const std::size_t then = steps_of(3);
  ASSERT_TRUE(eventually([&] { return steps_of(3) >= then + 60; })) << running.err();
  kill(running, 1);
  const auto result = running.wait(120s);
  ASSERT_EQ(result.code, 0) << result.err;
  const json summary = json::parse(read_text(run() / "summary.json"));
  EXPECT_EQ(summary["ending"], "finished");
  EXPECT_EQ(summary["steps"], 1000);
  EXPECT_EQ(summary["views"], 3);
  ASSERT_EQ(summary["lost"].size(), 2u);
  const json &mate = summary["lost"][0], &last = summary["lost"][1];
  EXPECT_EQ(mate["heard"], mate["step"]) << "its node has it all";
  EXPECT_EQ(mate["mean_shift"], 0.0);
  EXPECT_LE(last["heard"], last["step"]);
  EXPECT_GT(last["mean_shift"], 0.0);
  EXPECT_EQ(steps_of(2), 1000u);
  EXPECT_EQ(steps_of(3), 1000u);
}

TEST_F(Survival, TheRateFollowsTheMembersWhereThatIsAsked) {
  Command running(folder_.path(), tiny(1000, {"--workers", "4", "--set", "rate.on_view=scale", "--set",
                                              "rate.curve=constant", "--set", "rate.lr=0.001"}));
  ASSERT_TRUE(eventually([&] { return steps_of(3) >= 20; })) << running.err();
  kill(running, 2);
  const auto result = running.wait(120s);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("the rate is multiplied by 0.75"));
  const std::vector<double> rates = rates_of(0);
  EXPECT_DOUBLE_EQ(rates.at(10), 0.001);
  EXPECT_DOUBLE_EQ(rates.back(), 0.00075);
  EXPECT_EQ(rates, rates_of(3)) << "from the same step on";
}

// Slow is not dead.
TEST_F(Survival, AWorkerThatIsStoppedForSomeSecondsIsNotLost) {
  Command running(folder_.path(), tiny(1000, {"--workers", "3", "--set", "train.eval_every=0"}));
  ASSERT_TRUE(eventually([&] { return steps_of(1) >= 20; })) << running.err();
  const auto process = find_worker(running, 1);
  ASSERT_TRUE(process);
  ASSERT_EQ(::kill(*process, SIGSTOP), 0);
  std::this_thread::sleep_for(4s);
  ASSERT_EQ(::kill(*process, SIGCONT), 0);
  const auto result = running.wait(120s);
  ASSERT_EQ(result.code, 0) << result.err;
  const json summary = json::parse(read_text(run() / "summary.json"));
  EXPECT_EQ(summary["views"], 1);
  EXPECT_TRUE(summary["lost"].empty());
  EXPECT_EQ(summary["missing_rounds"], 0);
}

// Workers that kith train started: one leaves, the next is one too few.
TEST_F(Survival, WhoMayNotLeaveEndsTheRunResumably) {
  Command running(folder_.path(), tiny(100'000'000, {"--workers", "3", "--leave", "--set", "world.least=2",
                                                     "--set", "train.eval_every=0"}));
  ASSERT_TRUE(eventually([&] { return steps_of(2) >= 20; })) << running.err();
  const auto send_sigterm = [&](int worker) {
    const auto process = find_worker(running, worker);
    ASSERT_TRUE(process);
    ASSERT_EQ(::kill(*process, SIGTERM), 0);
  };
  send_sigterm(1);
  ASSERT_TRUE(eventually([&] { return !lines_of(1, "end").empty(); })) << running.err();
  const std::size_t then = steps_of(2);
  ASSERT_TRUE(eventually([&] { return steps_of(2) >= then + 20; })) << running.err();
  send_sigterm(2);
  EXPECT_EQ(running.wait(60s).code, 143) << running.err();
  const json summary = json::parse(read_text(run() / "summary.json"));
  EXPECT_EQ(summary["ending"], "terminated");
  EXPECT_EQ(summary["left"].size(), 1u);
  EXPECT_TRUE(summary["lost"].empty());
  EXPECT_THAT(running.out(), HasSubstr("go on with: kith train --resume"));
}

TEST_F(Survival, WithTooFewLeftTheRunEnds) {
  Command running(folder_.path(), tiny(100'000'000, {"--workers", "3", "--set", "world.least=3"}));
  ASSERT_TRUE(eventually([&] { return steps_of(1) >= 3; })) << running.err();
  kill(running, 1);
  EXPECT_EQ(running.wait(60s).code, 137) << running.err();
}

TEST_F(Survival, MoreThanThereAreIsBadInput) {
  const auto result =
      Command(folder_.path(), tiny(5, {"--workers", "2", "--set", "world.least=3"})).wait(60s);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("3 workers at least, and world.workers is 2"));
}

}  // namespace
}  // namespace kith::train

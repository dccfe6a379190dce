// How kith train ends before its steps are done: signals, deaths, readers that leave.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/run/command_support.h"
#include "tests/run/support.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using SteadyTime = std::chrono::steady_clock;

class StopCommand : public testing::Test {
 protected:
  // `kith train` of a tiny model by two workers into `run`, for longer than a test takes.
  Words endless(const Words& more = {}) const { return tiny(100'000'000, more); }
  Words tiny(int steps, const Words& more = {}) const {
    Words words{KITH_BINARY, "train", "--out", run().string(), "--workers", "2"};
    for (const char* setting :
         {"model.layers=1", "model.heads=2", "model.width=16", "model.context=16", "train.batch=2",
          "train.eval_samples=8", "train.eval_every=0", "rate.warmup=2", "output.log_every=1"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), {"--set", "train.steps=" + std::to_string(steps)});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  fs::path run() const { return folder_.path() / "run"; }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  bool trains(int worker) const {
    return eventually([&] {
      std::error_code absent;
      const auto file = run() / ("worker-" + std::to_string(worker)) / "metrics.jsonl";
      return fs::file_size(file, absent) > 0 && !absent;
    });
  }
  std::string ending() const {
    return nlohmann::json::parse(read_text(run() / "summary.json"))["ending"].get<std::string>();
  }
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(run() / "checkpoints", absent))
      if (fs::exists(entry.path() / "manifest.json")) names.push_back(entry.path().filename());
    return names;
  }
  // Both workers ended at one step, which the checkpoint holds.
  void expect_saved() const {
    EXPECT_EQ(ending(), "terminated");
    ASSERT_EQ(checkpoints().size(), 1u);
    for (const char* file : {"worker-0.safetensors", "worker-1.safetensors"})
      EXPECT_TRUE(fs::exists(run() / "checkpoints" / checkpoints().front() / file));
  }

  const TestFolder folder_;
};

TEST_F(StopCommand, SigtermSavesAndIsSaidWithItsLimit) {
  Command running(folder_.path(), endless());
  ASSERT_TRUE(trains(1)) << running.err();
  ::kill(running.pid(), SIGTERM);
  const auto result = running.wait(30s);
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_THAT(result.err, HasSubstr("SIGTERM: saves at a common step and ends, within 25 s"));
  EXPECT_THAT(result.out, HasSubstr("kith train --resume " + run().string()));
  expect_saved();
}

TEST_F(StopCommand, SigtermToEverybodyOfTheGroupIsTheSame) {
  Command running(folder_.path(), endless());
  ASSERT_TRUE(trains(1)) << running.err();
  ::kill(-running.pid(), SIGTERM);
  EXPECT_EQ(running.wait(30s).code, 143) << running.err();
  expect_saved();
}

TEST_F(StopCommand, SigtermToThreadsSaves) {
  Command running(folder_.path(), endless({"--threads"}));
  ASSERT_TRUE(trains(1)) << running.err();
  ::kill(running.pid(), SIGTERM);
  EXPECT_EQ(running.wait(30s).code, 143) << running.err();
  expect_saved();
}

TEST_F(StopCommand, SigtermToOneWorkerOfALaunchersWorldSavesAll) {
  std::vector<std::unique_ptr<Command>> workers;
  for (const char* worker : {"0", "1"}) {
    workers.push_back(
        std::make_unique<Command>(folder_.path(), endless({"--worker", worker, "--store", path("store")})));
  }
  ASSERT_TRUE(trains(1)) << workers[1]->err();
  ::kill(workers[1]->pid(), SIGTERM);
  EXPECT_EQ(workers[1]->wait(30s).code, 143) << workers[1]->err();
  EXPECT_EQ(workers[0]->wait(30s).code, 143) << workers[0]->err();
  EXPECT_THAT(workers[1]->err(), HasSubstr("worker 1: SIGTERM: saves at a common step"));
  expect_saved();
}

TEST_F(StopCommand, KithLaunchPassesSigtermOn) {
  Words words{KITH_BINARY, "launch", "--workers", "2", "--"};
  const Words train = endless();
  words.insert(words.end(), train.begin(), train.end());
  Command running(folder_.path(), words);
  ASSERT_TRUE(trains(1)) << running.err();
  ::kill(running.pid(), SIGTERM);
  EXPECT_EQ(running.wait(30s).code, 143) << running.err();
  expect_saved();
}

TEST_F(StopCommand, SigtermEndsInItsTimeWhenNothingCanBeSaved) {
  Command running(folder_.path(), endless({"--set", "checkpoint.sigterm_seconds=1"}));
  ASSERT_TRUE(trains(1)) << running.err();
  const auto stopped = find_worker(running, 1);
  ASSERT_TRUE(stopped);
  ::kill(*stopped, SIGSTOP);
  const auto begin = SteadyTime::now();
  ::kill(running.pid(), SIGTERM);
  EXPECT_EQ(running.wait(30s).code, 143) << running.err();
  EXPECT_LT(SteadyTime::now() - begin, 6s);
  EXPECT_NE(::kill(*stopped, 0), 0) << "a stopped worker stays behind";
  EXPECT_THAT(running.out(), Not(HasSubstr("--resume")));
}

TEST_F(StopCommand, CtrlCBeforeTheFirstStepPromisesNothing) {
  Command running(folder_.path(), endless());
  ASSERT_TRUE(eventually([&] { return find_worker(running, 1).has_value(); })) << running.err();
  running.interrupt();
  const auto result = running.wait(30s);
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("before the first checkpoint"), Not(HasSubstr("--resume"))));
}

TEST_F(StopCommand, ASecondCtrlCLeavesNobodyEvenAStoppedWorker) {
  Command running(folder_.path(), endless());
  ASSERT_TRUE(trains(1)) << running.err();
  const auto stopped = find_worker(running, 1);
  ASSERT_TRUE(stopped);
  ::kill(*stopped, SIGSTOP);
  running.interrupt();
  std::this_thread::sleep_for(700ms);  // two that come together count as one
  const auto second = SteadyTime::now();
  running.interrupt();
  EXPECT_EQ(running.wait(30s).code, 130) << running.err();
  EXPECT_LT(SteadyTime::now() - second, 4s);
  EXPECT_NE(::kill(*stopped, 0), 0);
}

TEST_F(StopCommand, ADeathDuringStartUpEndsEverybodySoon) {
  Command running(folder_.path(), endless());
  std::optional<pid_t> victim;
  ASSERT_TRUE(eventually([&] { return (victim = find_worker(running, 1)).has_value(); })) << running.err();
  const auto killed = SteadyTime::now();
  ::kill(*victim, SIGKILL);
  EXPECT_EQ(running.wait(30s).code, 137) << running.err();
  EXPECT_LT(SteadyTime::now() - killed, 4s);
  EXPECT_THAT(running.err(), HasSubstr("worker 1 was killed by signal 9"));
}

TEST_F(StopCommand, WhatIsNotSavedByStepsIsSavedByTime) {
  Command running(folder_.path(), endless({"--set", "checkpoint.minutes=0.002"}));
  ASSERT_TRUE(eventually([&] { return checkpoints().size() >= 2; })) << running.err();
  ::kill(-running.pid(), SIGKILL);
  running.wait(30s);
  const int step = std::stoi(std::ranges::max(checkpoints()).substr(5));
  const auto resumed = Command(folder_.path(), {KITH_BINARY, "train", "--resume", run().string(), "--set",
                                                "train.steps=" + std::to_string(step + 3)})
                           .wait();
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("going on from step " + std::to_string(step)));
}

TEST_F(StopCommand, AReaderThatLeavesDoesNotEndTheTraining) {
  std::string line = "set -o pipefail; \"$@\" | head -1";
  Words words{"bash", "-c", line, "bash"};
  const Words train = tiny(200);
  words.insert(words.end(), train.begin(), train.end());
  const auto result = Command(folder_.path(), words).wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(ending(), "finished");
  EXPECT_THAT(result.err, Not(HasSubstr("standard output")));
}

}  // namespace
}  // namespace kith::train

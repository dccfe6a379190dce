// kith train by workers that each have a folder of their own, as on machines that share no file system.

#include <csignal>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/text.h"
#include "tests/run/command_support.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;
using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Machine K of this test is the folder machine-K.
class PartsCommand : public testing::Test {
 protected:
  fs::path run(int machine) const { return folder_.path() / cat("machine-", machine) / "run"; }

  // One worker on each of these machines; `words` gets the worker's run folder.
  template <class WordsFor>
  void start(const std::vector<int>& machines, const WordsFor& words) {
    const std::string store = (folder_.path() / cat("store-", ++starts_)).string();
    fs::create_directories(store);
    workers_.clear();
    for (std::size_t worker = 0; worker < machines.size(); ++worker) {
      Words all{KITH_BINARY,          "train",   "--worker", cat(worker), "--workers",
                cat(machines.size()), "--store", store};
      const Words more = words(run(machines[worker]));
      all.insert(all.end(), more.begin(), more.end());
      workers_.push_back(std::make_unique<Command>(folder_.path(), all));
    }
  }

  void start_fresh(const std::vector<int>& machines, const Words& sets) {
    start(machines, [&](const fs::path& path) {
      Words words{"--out", path.string()};
      for (const std::string set : {"model.layers=1", "model.heads=2", "model.width=16", "model.context=16",
                                    "train.batch=2", "train.eval_samples=8", "train.eval_every=0",
                                    "rate.warmup=1", "checkpoint.every=4", "output.log_every=1"})
        words.insert(words.end(), {"--set", set});
      for (const std::string& set : sets)
        words.insert(words.end(), {"--set", set});
      return words;
    });
  }

  void start_resumed(const std::vector<int>& machines, const Words& more) {
    start(machines, [&](const fs::path& path) {
      Words words{"--resume", path.string()};
      words.insert(words.end(), more.begin(), more.end());
      return words;
    });
  }

  std::vector<Command::Result> wait() {
    std::vector<Command::Result> results;
    for (const auto& worker : workers_)
      results.push_back(worker->wait());
    return results;
  }

  void expect_all(const std::vector<Command::Result>& results, int code) {
    for (std::size_t worker = 0; worker < results.size(); ++worker)
      EXPECT_EQ(results[worker].code, code) << "worker " << worker << "\n"
                                            << results[worker].out << results[worker].err;
  }

  // Steps of the checkpoints that have one on the machine.
  std::vector<std::int64_t> list_of_manifests(int machine) const {
    std::vector<std::int64_t> steps;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(run(machine) / "checkpoints", ignored)) {
      if (fs::exists(entry.path() / "manifest.json"))
        steps.push_back(std::stoll(entry.path().filename().string().substr(5)));
    }
    return steps;
  }

  nlohmann::json summary(int machine) const {
    return nlohmann::json::parse(read_text(run(machine) / "summary.json"));
  }

  const TestFolder folder_;
  int starts_ = 0;
  std::vector<std::unique_ptr<Command>> workers_;
};

TEST_F(PartsCommand, LeavesAPartOnEachMachineAndTheWholeOnWorkerZeros) {
  start_fresh({0, 1, 1}, {"train.steps=6", "output.trace=true"});
  const auto results = wait();
  expect_all(results, 0);
  EXPECT_THAT(results[0].out, AllOf(HasSubstr("the run is in 2 parts"),
                                    HasSubstr("run folder: " + run(0).string() + " on ")));
  EXPECT_EQ(summary(0)["steps"], 6);
  for (const char* file :
       {"model.pt", "model.safetensors", "trace.json", "worker-0/metrics.jsonl", "worker-2/trace.json"})
    EXPECT_TRUE(fs::exists(run(0) / file)) << file;
  for (const int worker : {1, 2}) {
    const fs::path file = fs::path(cat("worker-", worker)) / "metrics.jsonl";
    EXPECT_EQ(read_text(run(0) / file), read_text(run(1) / file));
    EXPECT_THAT(read_text(run(0) / file), HasSubstr("\"ending\":\"finished\""));
    EXPECT_THAT(read_text(run(0) / "trace.json"), HasSubstr(cat("worker ", worker)));
  }
  EXPECT_FALSE(fs::exists(run(1) / "summary.json"));
  EXPECT_FALSE(fs::exists(run(1) / "worker-0"));
  for (const int machine : {0, 1}) {
    EXPECT_TRUE(fs::exists(run(machine) / "config.toml"));
    EXPECT_TRUE(fs::exists(run(machine) / "checkpoints/ckpt-00000006/manifest.json"));
    for (const auto& entry : fs::directory_iterator(run(machine)))
      EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".part-")));
  }
}

TEST_F(PartsCommand, OfAKilledRunGoOnBitForBitWithWorkersElsewhere) {
  start_fresh({0, 1, 2}, {"train.steps=1000000", "rate.curve=constant"});
  ASSERT_TRUE(eventually([&] { return !list_of_manifests(2).empty(); }));
  for (const auto& worker : workers_)
    ::kill(worker->pid(), SIGKILL);
  wait();
  // The newest checkpoint may have its manifest on some machines only.
  std::int64_t newest = 0;
  for (const int machine : {0, 1, 2})
    for (const std::int64_t step : list_of_manifests(machine))
      newest = std::max(newest, step);
  const std::string steps = cat("train.steps=", newest + 4);
  start_resumed({2, 0, 1}, {"--set", steps});
  expect_all(wait(), 0);
  start_fresh({10, 10, 10}, {steps, "rate.curve=constant"});
  expect_all(wait(), 0);
  EXPECT_EQ(read_text(run(2) / "model.safetensors"), read_text(run(10) / "model.safetensors"));
  EXPECT_EQ(summary(2)["validation_loss"], summary(10)["validation_loss"]);
  // Worker 0 was on machine 0, and its metrics have come along.
  EXPECT_THAT(read_text(run(2) / "worker-0/metrics.jsonl"), HasSubstr("\"step\":1,"));
}

TEST_F(PartsCommand, GoOnWithMoreWorkersAndAMachineThatHasNothing) {
  start_fresh({0, 1}, {"train.steps=6"});
  expect_all(wait(), 0);
  start_resumed({2, 0, 1}, {"--set", "world.workers=3", "--set", "train.steps=9"});
  const auto results = wait();
  expect_all(results, 0);
  EXPECT_THAT(results[0].err, HasSubstr("saved by 2 workers, goes on with 3"));
  EXPECT_EQ(summary(2)["workers"], 3);
  EXPECT_EQ(summary(2)["steps"], 9);
  EXPECT_TRUE(fs::exists(run(2) / "model.safetensors"));
  EXPECT_THAT(read_text(run(2) / "config.toml"), HasSubstr("workers = 3"));
}

TEST_F(PartsCommand, WithoutAPartIsRefusedByAllAndNamesWhatIsMissing) {
  start_fresh({0, 1, 2}, {"train.steps=6"});
  expect_all(wait(), 0);
  fs::remove_all(run(2));
  start_resumed({0, 1, 2}, {"--set", "train.steps=9"});
  const auto results = wait();
  expect_all(results, 2);
  for (const auto& result : results)
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("worker 2's file worker-2.safetensors"), HasSubstr(run(2).string())));
}

TEST_F(PartsCommand, IsRefusedWhereNobodyHasTheRunAndWhereAFolderHoldsSomethingElse) {
  start_resumed({0, 1}, {});
  auto results = wait();
  expect_all(results, 2);
  EXPECT_THAT(results[1].err, HasSubstr("no worker has a part of the run"));
  fs::create_directories(run(1));
  std::ofstream(run(1) / "thesis.tex") << "years of work";
  start_fresh({0, 1}, {"train.steps=6"});
  results = wait();
  expect_all(results, 2);
  for (const auto& result : results)
    EXPECT_THAT(result.err, AllOf(HasSubstr("exists and is not empty"), HasSubstr("worker 1 on ")));
}

TEST_F(PartsCommand, OfWorkerZerosMachineIsNotNeededToFinish) {
  start_fresh({0, 1, 1}, {"train.steps=1000000"});
  ASSERT_TRUE(workers_[0]->says("step 8/"));
  ::kill(workers_[0]->pid(), SIGKILL);
  ASSERT_TRUE(workers_[1]->says("worker 0 is gone: 2 workers go on"));
  workers_[1]->interrupt();
  const auto results = wait();
  EXPECT_EQ(results[1].code, 130) << results[1].err;
  EXPECT_EQ(results[2].code, 130) << results[2].err;
  EXPECT_EQ(summary(1)["ending"], "interrupted");
  EXPECT_THAT(results[1].err, HasSubstr("metrics of " + run(0).string()));
  EXPECT_THAT(results[1].out, HasSubstr("--resume " + run(1).string()));
  // Two workers saved it, both on machine 1.
  start_resumed(
      {1, 1}, {"--set", "world.workers=2", "--set", cat("train.steps=", summary(1)["steps"].get<int>() + 2)});
  expect_all(wait(), 0);
}

}  // namespace
}  // namespace kith::train

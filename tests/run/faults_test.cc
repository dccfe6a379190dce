// kith train where the disk, the folder or another process gets in its way.

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "kith/base/text.h"
#include "tests/run/support.h"
#include "tests/support/command.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;

class Faults : public testing::Test {
 protected:
  // Ignored signals stay ignored in what this process starts: a write beyond the limit is an error there.
  Faults() { ::signal(SIGXFSZ, SIG_IGN); }

  static Words words(const Words& more) {
    Words all{KITH_BINARY, "train"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // A tiny model of two workers that are threads: one process to disturb.
  Words tiny(int steps, const Words& more = {}) const {
    Words all = words({"--out", run().string(), "--workers", "2", "--threads"});
    for (const std::string& set :
         {std::string("model.layers=1"), std::string("model.heads=2"), std::string("model.width=16"),
          std::string("model.context=16"), std::string("train.batch=2"), std::string("train.eval_samples=8"),
          std::string("train.eval_every=0"), std::string("rate.warmup=1"),
          std::string("output.log_every=100000"), cat("train.steps=", steps)})
      all.insert(all.end(), {"--set", set});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Command::Result kith(const Words& all) const { return Command(folder_.path(), all).wait(); }
  Command::Result resume(const Words& more = {}) const {
    Words all = words({"--resume", run().string()});
    all.insert(all.end(), more.begin(), more.end());
    return kith(all);
  }
  fs::path run() const { return folder_.path() / "run"; }

  std::size_t lines(int worker, const std::string& kind) const {
    std::size_t count = 0;
    std::ifstream in(run() / cat("worker-", worker) / "metrics.jsonl");
    for (std::string line; std::getline(in, line);)
      count += line.find(cat("\"kind\":\"", kind, "\"")) != std::string::npos ? 1 : 0;
    return count;
  }
  template <class Condition>
  static bool eventually(const Condition& holds) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }
  bool reached(std::size_t steps) const {
    return eventually([&] { return lines(0, "step") >= steps && lines(1, "step") >= steps; });
  }
  nlohmann::json summary() const { return nlohmann::json::parse(read_text(run() / "summary.json")); }

  // No file grows beyond what the metrics have now: checkpoints do not fit, what the process says does.
  void fill_disk(pid_t pid) const { limit_files(pid, fs::file_size(run() / "worker-0" / "metrics.jsonl")); }
  static void limit_files(pid_t pid, rlim_t bytes) {
    const rlimit limit{bytes, RLIM_INFINITY};
    ASSERT_EQ(::prlimit(pid, RLIMIT_FSIZE, &limit, nullptr), 0) << std::strerror(errno);
  }

  const TestFolder folder_;
};

TEST_F(Faults, ARunWithoutItsModelGetsItFromTheLastCheckpointBitForBit) {
  ASSERT_EQ(kith(tiny(6)).code, 0);
  const std::string model = read_text(run() / "model-state.pt");
  const double loss = summary()["validation_loss"];
  for (const char* missing : {"model.pt", "model-state.pt", "summary.json"}) {
    fs::remove(run() / missing);
    const Command::Result result = resume();
    ASSERT_EQ(result.code, 0) << missing << result.err;
    EXPECT_TRUE(fs::exists(run() / missing));
    EXPECT_EQ(read_text(run() / "model-state.pt"), model) << missing;
    EXPECT_EQ(summary()["validation_loss"], loss);
    EXPECT_EQ(summary()["ending"], "finished");
    EXPECT_EQ(lines(0, "step"), 6u);
    EXPECT_EQ(lines(0, "eval"), 1u) << "the evaluation is there once";
  }
  const Command::Result done = resume();
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("has done its 6 steps"));
}

// Given more steps, the run dies after the last checkpoint: model and summary are of its first end.
TEST_F(Faults, AModelOfAnEarlierEndIsReplaced) {
  ASSERT_EQ(kith(tiny(4)).code, 0);
  const std::string model = read_text(run() / "model-state.pt");
  const std::string summary = read_text(run() / "summary.json");
  ASSERT_EQ(resume({"--set", "train.steps=6"}).code, 0);
  const std::string longer = read_text(run() / "model-state.pt");
  ASSERT_NE(longer, model);
  std::ofstream(run() / "model-state.pt", std::ios::binary) << model;
  std::ofstream(run() / "summary.json", std::ios::binary) << summary;
  const Command::Result result = resume();
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_text(run() / "model-state.pt"), longer);
}

TEST_F(Faults, TwoDoNotWorkInOneRun) {
  Command first(folder_.path(), tiny(1000000));
  ASSERT_TRUE(reached(3));
  ASSERT_EQ(::kill(first.pid(), SIGSTOP), 0);  // it holds the folder, and no processor
  const Command::Result second = resume();
  EXPECT_EQ(second.code, 2) << second.err;
  EXPECT_THAT(second.err, AllOf(HasSubstr(run().string()), HasSubstr(cat("process ", first.pid(), " on ")),
                                HasSubstr(" since 20")));
  const Command::Result third = kith(tiny(3));
  EXPECT_EQ(third.code, 2) << third.err;
  EXPECT_THAT(third.err, HasSubstr(run().string()));
  ASSERT_EQ(::kill(first.pid(), SIGKILL), 0);
  first.wait();
  EXPECT_THAT(resume().err, HasSubstr("no checkpoint"));  // the lock went with its holder
}

TEST_F(Faults, ADiskThatIsFullForAWhileCostsNothing) {
  Command running(folder_.path(), tiny(400, {"--set", "checkpoint.every=20"}));
  ASSERT_TRUE(reached(30));
  fill_disk(running.pid());
  EXPECT_TRUE(eventually([&] { return running.err().find("no checkpoint of step") != std::string::npos; }));
  limit_files(running.pid(), RLIM_INFINITY);
  const Command::Result result = running.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("metrics.jsonl: File too large"));
  EXPECT_EQ(lines(0, "step"), 400u);
  EXPECT_EQ(lines(1, "step"), 400u);
  EXPECT_EQ(summary()["metrics_lost"], 0);
  EXPECT_TRUE(fs::exists(run() / "model.pt"));
}

TEST_F(Faults, ADiskThatStaysFullKeepsTheLastCheckpointAndFails) {
  Command running(folder_.path(), tiny(200, {"--set", "checkpoint.every=20"}));
  ASSERT_TRUE(reached(25));
  fill_disk(running.pid());
  const Command::Result result = running.wait();
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("File too large"));
  const Command::Result resumed = resume();
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(lines(0, "step"), 200u);
  EXPECT_TRUE(fs::exists(run() / "model.pt"));
}

TEST_F(Faults, ARunFolderThatIsRemovedIsWrittenAnewAndThatIsSaid) {
  Command running(folder_.path(), tiny(400));
  ASSERT_TRUE(reached(10));
  fs::rename(run(), folder_.path() / "gone");
  fs::remove_all(folder_.path() / "gone");
  const Command::Result result = running.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("was removed"));
  EXPECT_EQ(lines(0, "step"), 400u);
  EXPECT_EQ(summary()["metrics_lost"], 0);
  for (const char* file : {"config.toml", "model.pt"})
    EXPECT_TRUE(fs::exists(run() / file)) << file;
}

}  // namespace
}  // namespace kith::train

// kith study quality, as a whole: real runs of a tiny model.

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/run/support.h"
#include "tests/support/command.h"

namespace kith::train {
namespace {

using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class StudyCommand : public testing::Test {
 protected:
  // Two methods of one worker each, a run for each seed.
  std::string study(const std::string& steps, const std::string& tune = "") const {
    return folder_
        .write("tiny.toml",
               "[study]\nbaseline = \"one\"\nseeds = [1]\n" + tune +
                   "[common]\nworld.workers = 1\nmodel.layers = 1\nmodel.heads = 2\nmodel.width = 16\n"
                   "model.context = 16\ntrain.batch = 2\ntrain.eval_samples = 8\ntrain.eval_every = 0\n"
                   "rate.warmup = 2\ntrain.steps = " +
                   steps + "\n[methods.one]\n[methods.two]\noptimizer.beta2 = 0.9\n")
        .string();
  }
  Words words(const std::string& file, const Words& more = {}) const {
    Words all{KITH_BINARY, "study", "quality", file, "--out", out().string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::filesystem::path out() const { return folder_.path() / "out"; }
  nlohmann::json json() const { return nlohmann::json::parse(read_text(out() / "study.json")); }

  const TestFolder folder_;
};

TEST_F(StudyCommand, RunsEverythingOnce) {
  const Command::Result first = Command(folder_.path(), words(study("3"))).wait();
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("two, 3 steps, seed 1: started"), HasSubstr("over one")));
  EXPECT_EQ(json().at("runs_done"), 2);
  const std::string folder = json().at("runs").at(1).at("folder");
  EXPECT_TRUE(std::filesystem::exists(out() / folder / "worker-0" / "metrics.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(out() / folder / "checkpoints")) << "many runs would fill the disk";
  EXPECT_THAT(read_text(out() / "commands.txt"), HasSubstr("--set optimizer.beta2=0.9 --set train.steps=3"));
  EXPECT_THAT(read_text(out() / "log.txt"), HasSubstr("two, 3 steps, seed 1: loss "));

  const Command::Result again = Command(folder_.path(), words(study("3"))).wait();
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, AllOf(HasSubstr("over one"), Not(HasSubstr("started"))));
}

TEST_F(StudyCommand, AnEditedStudyKeepsWhatStillFits) {
  const auto tune = [](const std::string& rates) {
    return "[tune]\nseeds = [7]\nrate.lr = [" + rates + "]\n";
  };
  const Command::Result first = Command(folder_.path(), words(study("3", tune("1e-3, 1e-8")))).wait();
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_THAT(first.out, HasSubstr("two rate.lr=0.001, 3 steps, seed 1: started"));
  const Command::Result second = Command(folder_.path(), words(study("3", tune("1e-3, 1e-8, 1e-9")))).wait();
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.out, AllOf(HasSubstr("two rate.lr=1e-09, 3 steps, seed 7: started"),
                                Not(HasSubstr("seed 1: started"))));
  EXPECT_EQ(json().at("runs_done"), 8);
}

TEST_F(StudyCommand, GoesOnAfterCtrlC) {
  Command endless(folder_.path(), words(study("100000000"), {"--jobs", "2"}));
  ASSERT_TRUE(endless.says("two, 100000000 steps, seed 1: started"));
  const Words other = words(study("100000000"));
  const auto trains = [&] {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(out() / "runs"))
      if (entry.path().filename() == "metrics.jsonl" && entry.file_size() > 0) return true;
    return false;
  };
  for (int i = 0; i < 6000 && !trains(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Command::Result second = Command(folder_.path(), other).wait();
  EXPECT_EQ(second.code, 2) << second.out;
  EXPECT_THAT(second.err, HasSubstr("kith study quality: "));
  endless.interrupt();
  const Command::Result stopped = endless.wait();
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("the same command goes on"));
  EXPECT_EQ(json().at("runs_done"), 0);

  Command resumed(folder_.path(), words(study("100000000"), {"--jobs", "2"}));
  EXPECT_TRUE(resumed.says(": goes on")) << resumed.out();
  resumed.interrupt();
  EXPECT_EQ(resumed.wait().code, 130);
}

// A child of the process.
std::optional<pid_t> child_of(pid_t parent) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (read_text(entry.path() / "status").find("\nPPid:\t" + std::to_string(parent) + "\n") !=
        std::string::npos)
      return std::stoi(name);
  }
  return {};
}

TEST_F(StudyCommand, ARunThatFailsIsNamedAndTheOthersGoOn) {
  Command endless(folder_.path(), words(study("100000000"), {"--jobs", "1"}));
  ASSERT_TRUE(endless.says("one, 100000000 steps, seed 1: started"));
  std::optional<pid_t> child;
  for (int i = 0; i < 6000 && !(child = child_of(endless.pid())); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(child);
  ::kill(*child, SIGKILL);
  EXPECT_TRUE(endless.says("one, 100000000 steps, seed 1: FAILED, was killed by signal 9")) << endless.out();
  EXPECT_TRUE(endless.says("two, 100000000 steps, seed 1: started")) << endless.out();
  endless.interrupt();
  EXPECT_EQ(endless.wait().code, 130);
}

TEST_F(StudyCommand, BadInputExitsWith2) {
  const auto refusal = [&](const Words& more) {
    Words all{KITH_BINARY, "study", "quality"};
    all.insert(all.end(), more.begin(), more.end());
    const Command::Result result = Command(folder_.path(), all).wait();
    EXPECT_EQ(result.code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(refusal({(folder_.path() / "none.toml").string()}),
              AllOf(HasSubstr("kith study quality: "), HasSubstr("none.toml: no such file")));
  EXPECT_THAT(refusal({study("0")}), AllOf(HasSubstr("train.steps"), HasSubstr("out of range")));
  EXPECT_THAT(refusal({study("3"), "--jobs", "0"}), HasSubstr("--jobs: 0 is out of range"));
}

}  // namespace
}  // namespace kith::train

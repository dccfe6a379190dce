// kith train, the real binary, as a user runs it: processes, folders, signals.

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/run/support.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using Words = std::vector<std::string>;

struct Result {
  int code = -1;  // 128 + signal when a signal ended it, -1 when it did not end in time
  std::string out;
  std::string err;
};

// A running `kith`, leader of its own process group, as a terminal would start it.
class Kith {
 public:
  Kith(const fs::path& folder, Words words) : out_(folder / "stdout"), err_(folder / "stderr") {
    words.insert(words.begin(), KITH_BINARY);
    std::vector<char*> argv;
    for (std::string& word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    const int failure = ::posix_spawn(&pid_, KITH_BINARY, &files, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (failure != 0) throw std::system_error(failure, std::generic_category(), KITH_BINARY);
  }
  ~Kith() {
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Kith(const Kith&) = delete;
  Kith& operator=(const Kith&) = delete;

  // Ctrl-C on a terminal.
  void interrupt() const { ::kill(-pid_, SIGINT); }

  // The process of a worker, by its place in the environment.
  std::optional<pid_t> worker(int number) const {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const pid_t pid = std::stoi(name);
      if (pid != pid_ && ::getpgid(pid) == pid_ &&
          read_text(entry.path() / "environ")
                  .find("KITH_WORKER=" + std::to_string(number) + std::string(1, '\0')) !=
              std::string::npos) {
        return pid;
      }
    }
    return {};
  }

  Result wait(std::chrono::seconds limit = 120s) {
    const auto end = std::chrono::steady_clock::now() + limit;
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) return {-1, read_text(out_), read_text(err_)};
      std::this_thread::sleep_for(10ms);
    }
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(out_),
            read_text(err_)};
  }

 private:
  const fs::path out_;
  const fs::path err_;
  pid_t pid_ = -1;
};

std::vector<json> lines_of(const fs::path& file, const std::string& kind) {
  std::vector<json> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    json parsed = json::parse(line, nullptr, false);
    if (parsed.is_object() && parsed["kind"] == kind) lines.push_back(std::move(parsed));
  }
  return lines;
}

std::vector<double> losses(const fs::path& run, int worker) {
  std::vector<double> values;
  for (const json& line : lines_of(run / ("worker-" + std::to_string(worker)) / "metrics.jsonl", "step"))
    values.push_back(line["loss"]);
  return values;
}

class TrainCommand : public testing::Test {
 protected:
  Result kith(Words words) { return Kith(folder_.path(), std::move(words)).wait(); }

  // `kith train` of a tiny model by two workers into `run`.
  Words tiny(const std::string& run, int steps, Words more = {}) const {
    Words words{"train",
                "--out",
                path(run),
                "--workers",
                "2",
                "--set",
                "model.layers=1",
                "--set",
                "model.heads=2",
                "--set",
                "model.width=16",
                "--set",
                "model.context=16",
                "--set",
                "train.batch=2",
                "--set",
                "train.eval_samples=8",
                "--set",
                "train.eval_every=0",
                "--set",
                "rate.warmup=2",
                "--set",
                "train.steps=" + std::to_string(steps)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  static std::string checkpoint_name(int step) {
    std::array<char, 32> name{};
    std::snprintf(name.data(), name.size(), "ckpt-%08d", step);
    return name.data();
  }
  // The tensors of a worker's file; what lies before them names the run.
  std::string checkpoint(const std::string& run, int step, int worker) const {
    const std::string text = read_text(at(run) / "checkpoints" / checkpoint_name(step) /
                                       ("worker-" + std::to_string(worker) + ".safetensors"));
    std::uint64_t header = 0;
    if (text.size() < sizeof header) return {};
    std::memcpy(&header, text.data(), sizeof header);
    return text.substr(sizeof header + header);
  }

  // Waits until a worker has written `count` steps; false when that takes too long.
  bool reached(const std::string& run, int worker, std::size_t count) const {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (losses(at(run), worker).size() < count) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(10ms);
    }
    return true;
  }

  const TestFolder folder_;
};

TEST_F(TrainCommand, LeavesARunFolderWithEverything) {
  const Result result = kith(tiny("run", 6, {"--set", "train.eval_every=3", "--trace"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("step 6/6"));
  EXPECT_THAT(result.out, HasSubstr("run folder: " + path("run")));
  EXPECT_EQ(result.out.find('\r'), std::string::npos) << "a bar in a file";

  for (int worker = 0; worker < 2; ++worker) {
    const fs::path metrics = at("run") / ("worker-" + std::to_string(worker)) / "metrics.jsonl";
    EXPECT_EQ(lines_of(metrics, "step").size(), 6u);
    EXPECT_EQ(lines_of(metrics, "eval").size(), 2u);
    EXPECT_GT(lines_of(metrics, "step").back()["bytes_read"], 0);
  }
  const json summary = json::parse(read_text(at("run") / "summary.json"));
  EXPECT_EQ(summary["ending"], "finished");
  EXPECT_EQ(summary["steps"], 6);
  EXPECT_EQ(summary["workers"], 2);
  EXPECT_NEAR(summary["validation_loss"], 5.5, 0.5);  // log(256) = 5.55 at the start
  EXPECT_GT(summary["seconds_per_iteration"], 0);
  EXPECT_GE(summary["waiting_share"], 0);
  EXPECT_GT(summary["bytes_sent"], 0);
  EXPECT_TRUE(fs::exists(at("run") / "model.pt"));
  EXPECT_TRUE(fs::exists(at("run") / "checkpoints" / "ckpt-00000006" / "manifest.json"));
  EXPECT_THAT(read_text(at("run") / "config.toml"), HasSubstr("width = 16"));

  std::set<std::string> names;
  std::set<int> workers;
  for (const json& event : json::parse(read_text(at("run") / "trace.json"))) {
    names.insert(event["name"].get<std::string>());
    workers.insert(event["pid"].get<int>());
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"forward", "backward", "step", "evaluation"}));
  EXPECT_EQ(workers.size(), 2u);
}

TEST_F(TrainCommand, ResumedRunsAreBitIdentical) {
  ASSERT_EQ(kith(tiny("whole", 8, {"--set", "checkpoint.every=4"})).code, 0);
  fs::copy(at("whole"), at("half"), fs::copy_options::recursive);
  fs::remove_all(at("half") / "checkpoints" / "ckpt-00000008");
  const Result resumed = kith({"train", "--resume", path("half")});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("going on from step 4"));
  for (int worker = 0; worker < 2; ++worker) {
    EXPECT_NE(checkpoint("whole", 8, worker), "");
    EXPECT_EQ(checkpoint("whole", 8, worker), checkpoint("half", 8, worker)) << "worker " << worker;
    EXPECT_EQ(losses(at("whole"), worker), losses(at("half"), worker));
    EXPECT_EQ(losses(at("half"), worker).size(), 8u);
  }

  // It has done its steps, and says so instead of doing nothing; it may be given more.
  const Result done = kith({"train", "--resume", path("half")});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("train.steps=N"));
  EXPECT_EQ(kith({"train", "--resume", path("half"), "--set", "train.steps=10"}).code, 0);
  EXPECT_EQ(losses(at("half"), 0).size(), 10u);
}

TEST_F(TrainCommand, CtrlCSavesAndTheRunGoesOnAsIfNothingHadHappened) {
  const Words constant{"--set", "rate.curve=constant"};  // the rate does not tell how many steps there are
  {
    Kith running(folder_.path(), tiny("stopped", 100'000'000, constant));
    ASSERT_TRUE(reached("stopped", 0, 5));
    running.interrupt();
    const Result result = running.wait(30s);
    ASSERT_EQ(result.code, 130) << result.err;
    EXPECT_THAT(result.out, HasSubstr("kith train --resume " + path("stopped")));
  }
  const json summary = json::parse(read_text(at("stopped") / "summary.json"));
  EXPECT_EQ(summary["ending"], "interrupted");
  EXPECT_EQ(losses(at("stopped"), 0).size(), losses(at("stopped"), 1).size()) << "not at one step";

  const int steps = summary["steps"].get<int>() + 40;
  ASSERT_EQ(
      kith({"train", "--resume", path("stopped"), "--set", "train.steps=" + std::to_string(steps)}).code, 0);
  ASSERT_EQ(kith(tiny("whole", steps, constant)).code, 0);
  for (int worker = 0; worker < 2; ++worker) {
    EXPECT_NE(checkpoint("whole", steps, worker), "");
    EXPECT_EQ(checkpoint("whole", steps, worker), checkpoint("stopped", steps, worker))
        << "worker " << worker;
    EXPECT_EQ(losses(at("whole"), worker), losses(at("stopped"), worker));
  }
}

TEST_F(TrainCommand, AKilledWorkerIsNamedAndEverybodyEndsWhereThatIsAsked) {
  Kith running(folder_.path(), tiny("run", 1000000, {"--set", "world.on_lost=fail"}));
  ASSERT_TRUE(reached("run", 1, 3));
  const auto victim = running.worker(1);
  ASSERT_TRUE(victim);
  const auto killed = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(*victim, SIGKILL), 0);
  const Result result = running.wait(30s);
  EXPECT_LT(std::chrono::steady_clock::now() - killed, 10s);
  EXPECT_GT(result.code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("worker 1"), HasSubstr("signal 9")));
  EXPECT_TRUE(fs::exists(at("run") / "config.toml"));
}

TEST_F(TrainCommand, ThreadsAndProcessesGiveTheSameBits) {
  ASSERT_EQ(kith(tiny("processes", 6)).code, 0);
  const Result threads = kith(tiny("threads", 6, {"--threads"}));
  ASSERT_EQ(threads.code, 0) << threads.err;
  for (int worker = 0; worker < 2; ++worker) {
    EXPECT_EQ(losses(at("processes"), worker).size(), 6u);
    EXPECT_EQ(losses(at("processes"), worker), losses(at("threads"), worker)) << "worker " << worker;
  }
  const Result refused = kith(tiny("dropout", 6, {"--threads", "--set", "model.dropout=0.1"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("random generator"));
  EXPECT_FALSE(fs::exists(at("dropout")));
}

TEST_F(TrainCommand, AllReduceAndAccumulationTrainToo) {
  const Result result = kith(tiny("run", 4,
                                  {"--set", "algorithm.name=allreduce", "--set", "optimizer.name=adamw",
                                   "--set", "train.accumulate=2", "--threads"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const json summary = json::parse(read_text(at("run") / "summary.json"));
  EXPECT_EQ(summary["algorithm"], "allreduce");
  EXPECT_LT(summary["consensus_distance"], 1e-6) << "all-reduce keeps the models equal";
}

TEST_F(TrainCommand, ATimeInsteadOfSteps) {
  const Result result = kith(tiny("run", 4,
                                  {"--set", "train.seconds=1", "--set", "train.eval_every=1", "--set",
                                   "rate.lr=1e-3", "--set", "rate.final_fraction=0", "--threads"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const json summary = json::parse(read_text(at("run") / "summary.json"));
  EXPECT_GT(summary["steps"], 10);
  // The pace of a busy machine changes within a stage of an eighth.
  EXPECT_GT(summary["seconds"], 0.5);
  EXPECT_LT(summary["seconds"], 3);
  const fs::path metrics = at("run") / "worker-0" / "metrics.jsonl";
  const std::vector<json> steps = lines_of(metrics, "step"), evaluations = lines_of(metrics, "eval");
  EXPECT_EQ(steps.size(), summary["steps"]);
  EXPECT_LT(steps.back()["lr"], 0.1 * 1e-3) << "the rate ends with the time";
  EXPECT_GE(evaluations.size(), 4U);
  EXPECT_NEAR(evaluations.back()["seconds"], summary["seconds"], 0.3);
  // More time for the same run.
  const Result resumed = kith({"train", "--resume", path("run"), "--set", "train.seconds=1.5"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_GT(json::parse(read_text(at("run") / "summary.json"))["steps"], summary["steps"]);
}

TEST_F(TrainCommand, BadInputIsTwoAndLeavesRunFoldersAlone) {
  ASSERT_EQ(kith(tiny("run", 3, {"--threads"})).code, 0);
  const std::string config = read_text(at("run") / "config.toml");
  const std::string summary = read_text(at("run") / "summary.json");
  const std::string job = folder_.write("job.toml", "[train]\nstep = 3\n");
  struct Case {
    Words words;
    std::string message;
  };
  const std::vector<Case> cases{
      {{"train", job}, "job.toml:2: train.step"},
      {{"train", path("none.toml")}, "none.toml"},
      {{"train", "--set", "train.stps=3"}, "did you mean 'train.steps'?"},
      {{"train", "--worker", "3"}, "--workers"},
      {{"train", "--workers", "0"}, "--workers: world.workers"},
      {{"train", "--workers", "5", "--set", "world.nodes=2x2"}, "--set: world.nodes"},
      {{"train", "--out", path("run")}, "not empty"},
      {{"train", "--set", "train.batch=900000", "--out", path("new")}, "train.batch"},
      {{"train", "--set", "data.path=" + path("none.txt"), "--out", path("new")},
       "data.path: " + path("none.txt")},
      {{"train", "--set", "model.name=cnn", "--set", "data.name=mnist", "--set", "data.path=" + path("none"),
        "--out", path("new")},
       "kith data mnist"},
      {{"train", "--resume", path("none")}, "config.toml"},
      {{"train", "--resume", path("run")}, "has done its 3 steps"},
      {{"train", "--resume", path("run"), "--set", "model.width=32"}, "must stay as it was"},
      {{"train", "--resume", path("run"), "--workers", "4", "--set", "world.nodes=2,1"}, "world.nodes"},
      {{"train", "--resume", path("run"), "--out", path("new")}, "--out"},
      {{"train", "--resume", path("run"), job}, "--resume"},
      {{"train", "--demo", job}, "--demo"},
      {{"train", "--in-run", path("run")}, "--in-run"},
      {{"train", "--resume", ""}, "--resume: an empty value"},
      {{"train", "--out", ""}, "--out: an empty value"},
      {{"train", "--workers="}, "--workers: an empty value"},
  };
  for (const Case& bad : cases) {
    const Result result = kith(bad.words);
    EXPECT_EQ(result.code, 2) << testing::PrintToString(bad.words) << result.err;
    EXPECT_THAT(result.err, AllOf(testing::StartsWith("kith train: "), HasSubstr(bad.message)));
  }
  EXPECT_FALSE(fs::exists(at("new")));
  EXPECT_EQ(read_text(at("run") / "config.toml"), config);
  EXPECT_EQ(read_text(at("run") / "summary.json"), summary);
  EXPECT_TRUE(fs::exists(at("run") / "checkpoints" / "ckpt-00000003" / "manifest.json"));
}

TEST_F(TrainCommand, ADamagedCheckpointIsRefusedAndTheOneBeforeOffered) {
  ASSERT_EQ(kith(tiny("run", 6, {"--threads", "--set", "checkpoint.every=3"})).code, 0);
  const fs::path newest = at("run") / "checkpoints" / "ckpt-00000006" / "worker-1.safetensors";
  fs::resize_file(newest, fs::file_size(newest) - 1);
  const Result result = kith({"train", "--resume", path("run"), "--set", "train.steps=9"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("worker-1.safetensors"), HasSubstr("ckpt-00000003")));
}

TEST_F(TrainCommand, PrintsAConfigurationThatItCanRead) {
  const Result printed = kith({"train", "--print-config", "--set", "train.steps=77"});
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.out, AllOf(HasSubstr("steps = 77"), HasSubstr("# How many workers train together.")));
  const std::string file = folder_.write("printed.toml", printed.out);
  EXPECT_EQ(kith({"train", file, "--print-config"}).out, printed.out);
}

}  // namespace
}  // namespace kith::train

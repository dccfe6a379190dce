// kith train, the real binary, under the real launchers.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "tests/support/command.h"
#include "tests/support/free_port.h"

namespace kith::launch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kSteps = 6;

std::string free_address() {
  return cat("127.0.0.1:", support::free_port());
}

class Launchers : public testing::Test {
 protected:
  // `kith train` of a tiny model into `run`.
  Words tiny(const std::string& run, const Words& more = {}) const {
    Words words{KITH_BINARY, "train", "--out", path(run)};
    for (const char* setting :
         {"model.layers=1", "model.heads=2", "model.width=16", "model.context=16", "train.batch=2",
          "train.eval_samples=8", "train.eval_every=0", "rate.warmup=2", "train.steps=6"})
      words.insert(words.end(), {"--set", setting});
    return with(words, more);
  }
  static Words with(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Command::Result run(Words words, const Command::Variables& variables = {}) const {
    return Command(folder_.path(), std::move(words), variables).wait();
  }
  std::string path(const std::string& name) const { return (fs::path(folder_.path()) / name).string(); }
  std::string secret_file(const std::string& name, const std::string& secret) const {
    std::ofstream(path(name)) << secret;
    fs::permissions(path(name), fs::perms::owner_read);
    return path(name);
  }

  std::vector<double> losses(const std::string& run, int worker) const {
    std::vector<double> values;
    std::ifstream in(path(run) + "/worker-" + std::to_string(worker) + "/metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      const json parsed = json::parse(line);
      if (parsed["kind"] == "step") values.push_back(parsed["loss"]);
    }
    return values;
  }

  // A finished run in which `workers` took part and read each other.
  void expect_trained(const std::string& run, int workers) const {
    const json summary = json::parse(Command::text_of(path(run) + "/summary.json"), nullptr, false);
    ASSERT_TRUE(summary.is_object()) << "no summary";
    EXPECT_EQ(summary["ending"], "finished");
    EXPECT_EQ(summary["steps"], kSteps);
    EXPECT_EQ(summary["workers"], workers);
    EXPECT_GT(summary["bytes_sent"], 0);
    for (int worker = 0; worker < workers; ++worker) {
      EXPECT_EQ(losses(run, worker).size(), static_cast<std::size_t>(kSteps)) << "worker " << worker;
      for (int other = 0; other < worker; ++other)
        EXPECT_NE(losses(run, worker), losses(run, other)) << "two workers on the same data";
    }
  }

  const TempFolder folder_{"kith-launchers-test"};
};

TEST_F(Launchers, Mpirun) {
  const auto result = run(with({"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4"}, tiny("run")));
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  expect_trained("run", 4);
  EXPECT_THAT(result.out, AllOf(HasSubstr("as Open MPI started"), HasSubstr("run folder: " + path("run"))));
  EXPECT_THAT(result.err, HasSubstr("worker 0: the store listens on 127.0.0.1:"));
}

// Bit for bit what the same job gives on workers that kith starts itself, trace and all.
TEST_F(Launchers, Torchrun) {
  const auto result =
      run(with({KITH_PYTHON, "-m", "torch.distributed.run", "--nproc_per_node", "4", "--no_python", "-r", "1",
                "-t", "1", "--master_port", std::to_string(support::free_port())},
               tiny("run", {"--trace"})));
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  expect_trained("run", 4);
  EXPECT_THAT(result.err, HasSubstr("MASTER_PORT + 1"));
  EXPECT_TRUE(fs::exists(path("run") + "/trace.json"));
  ASSERT_EQ(run(tiny("local", {"--workers", "4"})).code, 0);
  for (int worker = 0; worker < 4; ++worker)
    EXPECT_EQ(losses("run", worker), losses("local", worker));
}

TEST_F(Launchers, Srun) {
  const auto result = run(with({TESTS_LAUNCH "/with_slurm", "srun", "-n", "4", "--overcommit"}, tiny("run")));
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  expect_trained("run", 4);
  EXPECT_THAT(result.out, HasSubstr("as Slurm started"));
}

TEST_F(Launchers, KithLaunchWorkers) {
  const auto result = run(with({KITH_BINARY, "launch", "--workers", "4", "--"}, tiny("run")));
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  expect_trained("run", 4);
  EXPECT_THAT(result.out, HasSubstr("[0] run folder: " + path("run")));
}

TEST_F(Launchers, KithLaunchHosts) {
  const auto result = run(
      with({TESTS_LAUNCH "/with_sshd", "sh", "-c",
            KITH_BINARY " launch --hosts 127.0.0.1:2,localhost:2 --ssh \"$KITH_TEST_SSH\" -- \"$@\"", "sh"},
           tiny("run")));
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  expect_trained("run", 4);
  EXPECT_THAT(result.err, HasSubstr("joining needs the run secret"));
}

TEST_F(Launchers, DifferentJobsEndEverybodyWithTwoAndNameBothSides) {
  const auto result =
      run(with({KITH_BINARY, "launch", "--workers", "4", "--", "sh", "-c",
                "\"$@\" --set train.accumulate=$(( KITH_WORKER == 3 ? 2 : 1 )); echo code $?", "sh"},
               tiny("run")));
  for (int worker = 0; worker < 4; ++worker) {
    EXPECT_THAT(result.out, HasSubstr(cat("[", worker, "] code 2\n")));
    EXPECT_THAT(
        result.err,
        testing::ContainsRegex(cat(
            "\\[", worker, "\\] kith train: .*train.accumulate is '1' on workers 0 to 2, '2' on worker 3")));
  }
  EXPECT_FALSE(fs::exists(path("run"))) << "left a run folder behind";
}

TEST_F(Launchers, AWrongSecretIsRefusedAndTheRunGoesOn) {
  const std::string store = free_address();
  const Command::Variables good{{"KITH_SECRET_FILE", secret_file("good", "open sesame")}};
  const Command::Variables bad{{"KITH_SECRET_FILE", secret_file("bad", "guess")}};
  const auto words = [&](const std::string& worker) {
    return tiny("run", {"--worker", worker, "--workers", "2", "--store", store, "--interface", "lo"});
  };
  Command first(folder_.path(), words("0"), good);
  const auto refused = run(words("1"), bad);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("the run secret differs"));
  const auto second = run(words("1"), good);
  EXPECT_EQ(second.code, 0) << second.err;
  const auto result = first.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("refused 127.0.0.1:"), HasSubstr("its run secret differs")));
  expect_trained("run", 2);
}

TEST_F(Launchers, CtrlCSavesAndALauncherGoesOn) {
  const Words launch{KITH_BINARY, "launch", "--workers", "2", "--"};
  {
    Command running(
        folder_.path(),
        with(launch, tiny("run", {"--set", "train.steps=1000000", "--set", "output.log_every=1"})));
    ASSERT_TRUE(running.says("step 3/")) << running.err();
    running.interrupt();
    const auto result = running.wait();
    EXPECT_EQ(result.code, 130) << result.err;
    EXPECT_THAT(result.out, HasSubstr("kith train --resume " + path("run")));
  }
  const std::size_t before = losses("run", 0).size();
  const auto resumed = run(with(launch, {KITH_BINARY, "train", "--resume", path("run"), "--set",
                                         "train.steps=" + std::to_string(before + 5)}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr(cat("going on from step ", before)));
  EXPECT_EQ(losses("run", 1).size(), before + 5);
}

// These launchers end everybody when one worker dies: a change of members is a resume with those who are
// left.
class Restarts : public Launchers {
 protected:
  Words endless() const {
    return tiny("run", {"--set", "train.steps=1000000", "--set", "checkpoint.every=5", "--set",
                        "output.log_every=1"});
  }
  // A worker's process, as it has told in its metrics.
  pid_t process_of(int worker) const {
    std::ifstream in(path("run") + cat("/worker-", worker, "/metrics.jsonl"));
    std::string line;
    std::getline(in, line);
    return std::stoi(json::parse(line).at("environment").at("process").get<std::string>());
  }
  // Steps of the newest checkpoint; 0: there is none.
  int saved() const {
    int newest = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path("run") + "/checkpoints", ignored)) {
      const std::string name = entry.path().filename();
      if (fs::exists(entry.path() / "manifest.json")) newest = std::max(newest, std::stoi(name.substr(5)));
    }
    return newest;
  }
  // A worker is killed after the first checkpoint.
  void kill_one(const Command& running) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (saved() == 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_GT(saved(), 0) << running.err();
    ASSERT_EQ(::kill(process_of(2), SIGKILL), 0);
  }
  void start_and_kill(const Words& launcher) const {
    Command running(folder_.path(), with(launcher, endless()));
    kill_one(running);
    EXPECT_NE(running.wait(std::chrono::seconds(90)).code, 0);
  }
  // Two go on and finish. The checkpoint is of all four, or of the three who went on until the launcher ended
  // them.
  void resume_with_two(const Words& launcher) const {
    const int steps = saved() + 50;
    const auto result = run(with(launcher, {KITH_BINARY, "train", "--resume", path("run"), "--workers", "2",
                                            "--set", cat("train.steps=", steps)}));
    ASSERT_EQ(result.code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("going on from step "));
    EXPECT_THAT(result.err, HasSubstr(" workers, goes on with 2"));
    const json summary = json::parse(Command::text_of(path("run") + "/summary.json"));
    EXPECT_EQ(summary["ending"], "finished");
    EXPECT_EQ(summary["steps"], steps);
    EXPECT_EQ(summary["workers"], 2);
    EXPECT_TRUE(fs::exists(path("run") + "/model.safetensors"));
  }
};

TEST_F(Restarts, TorchrunGoesOnWithFewer) {
  const auto launcher = [](int workers) {
    return Words{KITH_PYTHON,
                 "-m",
                 "torch.distributed.run",
                 "--nproc_per_node",
                 std::to_string(workers),
                 "--no_python",
                 "-r",
                 "1",
                 "-t",
                 "1",
                 "--master_port",
                 std::to_string(support::free_port())};
  };
  start_and_kill(launcher(4));
  resume_with_two(launcher(2));
}

TEST_F(Restarts, SlurmGoesOnWithFewer) {
  const auto launcher = [](const char* tasks) {
    return Words{TESTS_LAUNCH "/with_slurm", "srun", "-n", tasks, "--overcommit", "--kill-on-bad-exit=1"};
  };
  start_and_kill(launcher("4"));
  resume_with_two(launcher("2"));
}

// torchrun starts everybody again by itself, with the same command: it resumes where there is something to
// resume.
TEST_F(Restarts, TorchrunRestartsAndTheRunGoesOn) {
  const std::string script = "if [ $TORCHELASTIC_RESTART_COUNT -gt 0 ]; then last=$(ls " +
                             path("run/checkpoints") +
                             " | sort | tail -1 | sed 's/ckpt-0*//'); exec " KITH_BINARY " train --resume " +
                             path("run") + " --set train.steps=$((last + 50)); fi; exec \"$@\"";
  const Words launcher{KITH_PYTHON,
                       "-m",
                       "torch.distributed.run",
                       "--nproc_per_node",
                       "4",
                       "--max_restarts",
                       "1",
                       "--no_python",
                       "-r",
                       "1",
                       "-t",
                       "1",
                       "--master_port",
                       std::to_string(support::free_port()),
                       "sh",
                       "-c",
                       script,
                       "sh"};
  Command running(folder_.path(), with(launcher, endless()));
  kill_one(running);
  const auto result = running.wait(std::chrono::seconds(120));
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  const json summary = json::parse(Command::text_of(path("run") + "/summary.json"));
  EXPECT_EQ(summary["ending"], "finished");
  EXPECT_EQ(summary["workers"], 4);
}

// A requeued job runs its batch script once more: it resumes, with as many workers as it wants to have now.
TEST_F(Restarts, SlurmRequeuesAndTheRunGoesOn) {
  std::string command;
  for (const std::string& word : endless())
    command += cat(" '", word, "'");
  std::ofstream(path("job.sh")) << "#!/bin/sh\n"
                                   "if [ \"${SLURM_RESTART_COUNT:-0}\" -gt 0 ]; then\n"
                                   "  last=$(ls "
                                << path("run/checkpoints") << " | sort | tail -1 | sed 's/ckpt-0*//')\n"
                                << "  exec srun --overcommit -n 2 " KITH_BINARY " train --resume "
                                << path("run") << " --workers 2 --set train.steps=$((last + 50))\n"
                                << "fi\n"
                                << "exec srun --overcommit -n 3" << command << "\n";
  const std::string script =
      "id=$(sbatch --parsable --requeue --overcommit -n 3 --output " + path("batch.out") +
      " --open-mode=append " + path("job.sh") + "); for _ in $(seq 600); do ! ls " + path("run/checkpoints") +
      "/*/manifest.json > /dev/null 2>&1 || break; sleep 0.1; done; scontrol requeue $id; "
      "for _ in $(seq 900); do state=$(scontrol show job $id | grep -o 'JobState=[A-Z]*'); "
      "case $state in *COMPLETED|*FAILED|*CANCELLED) break;; esac; sleep 0.1; done; "
      "echo $state; scontrol show job $id | grep -o 'Restarts=[0-9]*'";
  const auto result = Command(folder_.path(), {TESTS_LAUNCH "/with_slurm", "bash", "-c", script})
                          .wait(std::chrono::seconds(160));
  const std::string batch = Command::text_of(path("batch.out"));
  ASSERT_THAT(result.out, AllOf(HasSubstr("JobState=COMPLETED"), HasSubstr("Restarts=1")))
      << result.err << batch;
  EXPECT_THAT(batch, AllOf(HasSubstr("going on from step "), HasSubstr(" workers, goes on with 2")));
  const json summary = json::parse(Command::text_of(path("run") + "/summary.json"));
  EXPECT_EQ(summary["ending"], "finished");
  EXPECT_EQ(summary["workers"], 2);
}

TEST_F(Launchers, CtrlCEndsAWorkerThatWaitsForTheOthers) {
  Command lonely(folder_.path(), tiny("run", {"--worker", "0", "--workers", "2", "--store", free_address()}));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (lonely.err().find("the store listens") == std::string::npos &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  lonely.interrupt();
  EXPECT_EQ(lonely.wait(std::chrono::seconds(20)).code, 130);
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Launchers, AWorldThatIsNotTheJobsIsRefused) {
  const Command::Variables world{{"KITH_WORKER", "0"}, {"KITH_WORKERS", "2"}, {"KITH_STORE", path("meet")}};
  const auto other = run(tiny("run", {"--workers", "3"}), world);
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("--workers"), HasSubstr("3 workers"), HasSubstr("kith started 2")));
  EXPECT_EQ(run(tiny("run", {"--threads"}), world).code, 2);
  EXPECT_EQ(run({KITH_BINARY, "train", "--demo"}, world).code, 2);
  EXPECT_EQ(run(tiny("run"), {{"RANK", "1"}, {"WORLD_SIZE", "2"}}).code, 2);
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Launchers, AWorldOfOneIsOneWorkerUnlessMoreAreAskedFor) {
  const Command::Variables one{
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  ASSERT_EQ(run(tiny("one"), one).code, 0);
  EXPECT_EQ(json::parse(Command::text_of(path("one") + "/summary.json"))["workers"], 1);
  ASSERT_EQ(run(tiny("two", {"--workers", "2"}), one).code, 0);
  expect_trained("two", 2);
}

}  // namespace
}  // namespace kith::launch

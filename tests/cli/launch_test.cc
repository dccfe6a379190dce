// kith env and kith launch, the real binary.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "kith/base/temp_folder.h"
#include "tests/support/command.h"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using support::Command;
using support::Words;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

const Words kHere{KITH_BINARY, "launch", "--workers", "3", "--"};
const Words kThere{
    TESTS_LAUNCH "/with_sshd", "sh", "-c",
    "exec " KITH_BINARY " launch --hosts 127.0.0.1:2,localhost --ssh \"$KITH_TEST_SSH\" -- \"$@\"", "sh"};

const Command::Variables kTorchrun{{"RANK", "1"},
                                   {"WORLD_SIZE", "4"},
                                   {"LOCAL_RANK", "1"},
                                   {"LOCAL_WORLD_SIZE", "2"},
                                   {"MASTER_ADDR", "10.0.0.1"},
                                   {"MASTER_PORT", "29500"}};

class LaunchCommand : public testing::Test {
 protected:
  Command::Result run(Words words, const Command::Variables& variables = {}) {
    return Command(folder_.path(), std::move(words), variables).wait();
  }
  static Words with(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  fs::path path(const std::string& name) const { return fs::path(folder_.path()) / name; }

  const TempFolder folder_{"kith-launch-test"};
};

TEST_F(LaunchCommand, EnvShowsWhatWasFound) {
  const auto result = run({KITH_BINARY, "env", "--json"}, kTorchrun);
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["launcher"], "torchrun");
  EXPECT_EQ(json["worker"], 1);
  EXPECT_EQ(json["workers"], 4);
  EXPECT_EQ(json["local_rank"], 1);
  EXPECT_EQ(json["store"], "10.0.0.1:29501");
  EXPECT_EQ(json["store_from"], "MASTER_PORT + 1");
  EXPECT_EQ(json["secret"], false);
  EXPECT_EQ(json["variables"]["MASTER_PORT"], "29500");
  EXPECT_EQ(json["variables"]["KITH_PORT"], nullptr);
  EXPECT_THAT(run({KITH_BINARY, "env"}).out, HasSubstr("a single process"));
  EXPECT_THAT(run({KITH_BINARY, "env", "--worker", "1", "--workers", "2", "--store", "n1:7"}).out,
              AllOf(HasSubstr("flags"), HasSubstr("n1:7")));
}

TEST_F(LaunchCommand, EnvNeverShowsTheSecret) {
  std::ofstream(path("secret")) << "open sesame";
  fs::permissions(path("secret"), fs::perms::owner_read);
  Command::Variables variables = kTorchrun;
  variables["KITH_SECRET_FILE"] = path("secret").string();
  for (const Words& more : {Words{}, Words{"--json"}}) {
    const auto result = run(with({KITH_BINARY, "env"}, more), variables);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("secret"), Not(HasSubstr("sesame"))));
  }
  fs::permissions(path("secret"), fs::perms::owner_read | fs::perms::others_read);
  EXPECT_EQ(run({KITH_BINARY, "env"}, variables).code, 2);
}

TEST_F(LaunchCommand, EnvListsContradictoryVariables) {
  Command::Variables variables = kTorchrun;
  variables["RANK"] = "4";
  variables.erase("MASTER_ADDR");
  const auto result = run({KITH_BINARY, "env"}, variables);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("worker 4 of 4"), HasSubstr("RANK=4"), HasSubstr("WORLD_SIZE=4"),
                                HasSubstr("MASTER_ADDR is not set")));
}

TEST_F(LaunchCommand, LinesCarryTheirWorkerAndTheEnvironmentItsPlace) {
  const std::string script =
      "echo \"$KITH_WORKER of $KITH_WORKERS, $GREETING\"; echo \"error $KITH_WORKER\" >&2; "
      "printf unfinished; stat -c %a \"$KITH_SECRET_FILE\"";
  const auto result =
      run({KITH_BINARY, "launch", "--workers", "3", "--env", "GREETING=hello", "--", "sh", "-c", script});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const std::string worker : {"0", "1", "2"}) {
    EXPECT_THAT(result.out, HasSubstr("[" + worker + "] " + worker + " of 3, hello\n"));
    EXPECT_THAT(result.out, HasSubstr("[" + worker + "] unfinished600\n"));
    EXPECT_THAT(result.err, HasSubstr("[" + worker + "] error " + worker + "\n"));
  }
}

TEST_F(LaunchCommand, TheSecretIsOnNoCommandLineAndEachRunHasItsOwn) {
  const std::string script =
      "cat \"$KITH_SECRET_FILE\"; echo; cat /proc/$$/cmdline /proc/$PPID/cmdline | tr '\\0' ' '";
  const auto first = run({KITH_BINARY, "launch", "--workers", "1", "sh", "-c", script});
  const auto second = run({KITH_BINARY, "launch", "--workers", "1", "sh", "-c", script});
  const std::string secret = first.out.substr(4, 64);
  EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos) << first.out;
  EXPECT_EQ(first.out.find(secret, 68), std::string::npos) << first.out;
  EXPECT_THAT(second.out, Not(HasSubstr(secret)));
}

TEST_F(LaunchCommand, BadInputIsTwo) {
  struct Case {
    Words words;
    std::string message;
  };
  for (const Case& bad :
       {Case{{"launch", "--workers", "2"}, "no command"},
        Case{{"launch", "--", "true"}, "neither --workers nor --hosts"},
        Case{{"launch", "--workers", "2", "--hosts", "a:1", "true"}, "both"},
        Case{{"launch", "--workers", "0", "true"}, "--workers"},
        Case{{"launch", "--hosts", "a:0", "true"}, "a:0"}, Case{{"launch", "--hosts", "a:x", "true"}, "a:x"},
        Case{{"launch", "--hosts", "a,,b", "true"}, "--hosts"},
        Case{{"launch", "--hosts", "-oProxyCommand=x:1", "true"}, "--hosts"},
        Case{{"launch", "--hosts", "a", "--store", "b", "true"}, "--store"},
        Case{{"launch", "--workers", "1", "--env", "KITH_NOT_SET_HERE", "true"}, "KITH_NOT_SET_HERE"}}) {
    const auto result = run(with({KITH_BINARY}, bad.words));
    EXPECT_EQ(result.code, 2) << testing::PrintToString(bad.words) << result.out;
    EXPECT_THAT(result.err, AllOf(HasSubstr("kith launch: "), HasSubstr(bad.message)));
  }
}

TEST_F(LaunchCommand, ACommandThatDoesNotExistIsNamed) {
  const auto result = run({KITH_BINARY, "launch", "--workers", "2", "--", "/no/such/program"});
  EXPECT_EQ(result.code, 127);
  EXPECT_THAT(result.err, HasSubstr("cannot run '/no/such/program'"));
}

// The same on this machine and over ssh.
class LaunchAnywhere : public LaunchCommand, public testing::WithParamInterface<bool> {
 protected:
  static Words launch(const Words& command) { return with(GetParam() ? kThere : kHere, command); }
  // The process of `kith launch` itself.
  static pid_t launcher(const Command& running) {
    if (!GetParam()) return running.pid();
    for (const auto& [pid, words] : processes())
      if (parent_of(pid) == running.pid() && words.starts_with(KITH_BINARY)) return pid;
    return -1;
  }
  // A sleep of so many seconds and a little more, which no other test's is.
  static std::string own_sleep(int seconds) {
    return "sleep " + std::to_string(seconds) + "." + std::to_string(::getpid());
  }
  // Until nobody runs that sleep, or until somebody does.
  static bool gone(const std::string& sleep, std::chrono::seconds limit = 20s) {
    return comes_to(limit, [&] { return !runs(sleep); });
  }
  static bool there(const std::string& sleep) {
    return comes_to(20s, [&] { return runs(sleep); });
  }

 private:
  template <class Condition>
  static bool comes_to(std::chrono::seconds limit, const Condition& holds) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(50ms);
    }
    return true;
  }
  static bool runs(const std::string& command) {
    const auto all = processes();
    return std::ranges::any_of(all, [&](const auto& process) { return process.second == command + " "; });
  }
  // All processes, with their words behind each other.
  static std::vector<std::pair<pid_t, std::string>> processes() {
    std::vector<std::pair<pid_t, std::string>> all;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::string words = Command::text_of(entry.path() / "cmdline");
      std::ranges::replace(words, '\0', ' ');
      all.emplace_back(std::stoi(name), words);
    }
    return all;
  }
  static pid_t parent_of(pid_t pid) {
    const std::string status = Command::text_of("/proc/" + std::to_string(pid) + "/status");
    const auto at = status.find("PPid:");
    return at == std::string::npos ? -1 : std::stoi(status.substr(at + 5));
  }
};
INSTANTIATE_TEST_SUITE_P(Where, LaunchAnywhere, testing::Bool(),
                         [](const auto& param) { return param.param ? "Hosts" : "Workers"; });

TEST_P(LaunchAnywhere, RunsInTheSameFolderWithItsPlace) {
  const auto result = run(with(
      {"env", "-C", folder_.path()},
      launch({"sh", "-c", "echo $KITH_WORKER/$KITH_WORKERS $KITH_LOCAL_RANK/$KITH_LOCAL_WORKERS; pwd"})));
  ASSERT_EQ(result.code, 0) << result.err;
  const Words places =
      GetParam() ? Words{"0/3 0/2", "1/3 1/2", "2/3 0/1"} : Words{"0/3 0/3", "1/3 1/3", "2/3 2/3"};
  for (std::size_t worker = 0; worker < 3; ++worker) {
    const std::string tag = "[" + std::to_string(worker) + "] ";
    EXPECT_THAT(result.out,
                AllOf(HasSubstr(tag + places[worker] + "\n"), HasSubstr(tag + folder_.path() + "\n")));
  }
}

TEST_P(LaunchAnywhere, EveryLineArrivesWhole) {
  const auto result =
      run(launch({"seq", "-f", "line %g of many that fill every pipe and socket on the way", "20000"}));
  ASSERT_EQ(result.code, 0) << result.err;
  std::map<std::string, int> next;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const std::string tag = line.substr(0, 4);
    ASSERT_EQ(line, tag + "line " + std::to_string(++next[tag]) +
                        " of many that fill every pipe and socket on the way");
  }
  EXPECT_EQ(next, (std::map<std::string, int>{{"[0] ", 20000}, {"[1] ", 20000}, {"[2] ", 20000}}));
}

TEST_P(LaunchAnywhere, AFailingWorkersCodeCountsAndItsLastLinesComeLast) {
  // The others may begin sooner, above all on other hosts.
  const std::string broke = path("broke").string();
  const auto result = run(launch({"sh", "-c",
                                  "if [ $KITH_WORKER = 1 ]; then echo before; echo 'it broke' >&2; touch " +
                                      broke + "; exit 7; fi; while [ ! -e " + broke +
                                      " ]; do sleep 0.1; done; sleep 2; echo noticed; exit 9"}));
  EXPECT_EQ(result.code, 7) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("[0] noticed"), HasSubstr("[2] noticed")));
  EXPECT_THAT(
      result.err,
      EndsWith("kith launch: worker 1 ended with exit code 7; its last lines:\n[1] before\n[1] it broke\n"));
}

TEST_F(LaunchCommand, AFailingWorkerEndsThoseWhoDoNotNotice) {
  const auto result = run(with(kHere, {"sh", "-c",
                                       "[ $KITH_WORKER != 1 ] || kill -9 $$; "
                                       "trap 'echo ended; kill $!; exit 0' TERM; sleep 41.7 & wait"}));
  EXPECT_EQ(result.code, 137) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("[0] ended"), HasSubstr("[2] ended")));
  EXPECT_THAT(result.err, HasSubstr("worker 1 was killed by signal 9"));
}

TEST_P(LaunchAnywhere, CtrlCIsPassedOn) {
  Command running(folder_.path(),
                  launch({"sh", "-c",
                          "trap 'echo interrupted; kill $!; exit 3' INT; echo ready $KITH_WORKER; "
                          "sleep 42.7 & wait"}));
  for (const char* worker : {"0", "1", "2"})
    ASSERT_TRUE(running.says(std::string("ready ") + worker)) << running.err();
  ASSERT_GT(launcher(running), 0);
  ::kill(launcher(running), SIGINT);
  const auto result = running.wait(30s);
  EXPECT_EQ(result.code, 3) << result.err;
  for (const char* worker : {"0", "1", "2"})
    EXPECT_THAT(result.out, HasSubstr(std::string("[") + worker + "] interrupted"));
}

TEST_P(LaunchAnywhere, ASecondCtrlCEndsWhoIgnoresIt) {
  const std::string sleep = own_sleep(44);
  Command running(folder_.path(),
                  launch({"sh", "-c", "trap '' INT TERM; echo ready $KITH_WORKER; exec " + sleep}));
  for (const char* worker : {"0", "1", "2"})
    ASSERT_TRUE(running.says(std::string("ready ") + worker)) << running.err();
  ASSERT_GT(launcher(running), 0);
  ::kill(launcher(running), SIGINT);
  std::this_thread::sleep_for(700ms);  // two that come together count as one
  const auto second = std::chrono::steady_clock::now();
  ::kill(launcher(running), SIGINT);
  EXPECT_NE(running.wait(30s).code, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - second, 4s);
  EXPECT_TRUE(gone(sleep, 4s));
}

TEST_F(LaunchCommand, AReaderThatLeavesEndsNobody) {
  const std::string command = "set -o pipefail; " KITH_BINARY
                              " launch --workers 2 -- sh -c 'seq 20000; touch done-$KITH_WORKER' | head -1";
  const auto result = run({"env", "-C", folder_.path(), "bash", "-c", command});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(fs::exists(path("done-0")) && fs::exists(path("done-1")));
}

TEST_P(LaunchAnywhere, NobodyOutlivesAKilledLauncher) {
  const std::string sleep = own_sleep(43);
  Command running(folder_.path(), launch({"sh", "-c", "echo ready $KITH_WORKER; exec " + sleep}),
                  {{"TMPDIR", folder_.path()}});  // it cannot clean up
  for (const char* worker : {"0", "1", "2"})
    ASSERT_TRUE(running.says(std::string("ready ") + worker)) << running.err();
  ASSERT_TRUE(there(sleep));
  ASSERT_GT(launcher(running), 0);
  ::kill(launcher(running), SIGKILL);
  EXPECT_TRUE(gone(sleep));
}

TEST_F(LaunchCommand, AnUnreachableHostIsNamed) {
  const auto result = run(
      {KITH_BINARY, "launch", "--hosts", "127.0.0.1", "--ssh", "ssh -F none -o BatchMode=yes -p 1", "true"});
  EXPECT_EQ(result.code, 255);
  EXPECT_THAT(result.err, AllOf(HasSubstr("host 127.0.0.1"), HasSubstr("[127.0.0.1] ssh: connect")));
}

}  // namespace
}  // namespace kith::cli

// What kith launch does when workers die: the real binary with plain processes.

#include <chrono>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/newcomers.h"
#include "cli/roll.h"
#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "tests/support/command.h"

namespace kith::cli {
namespace {

using namespace std::chrono_literals;
using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Roll, WithoutAPolicyTheFirstDeathEndsAllAndItsCodeCounts) {
  Roll roll({});
  roll.started(3);
  EXPECT_TRUE(roll.died(137));
  EXPECT_TRUE(roll.died(1));
  EXPECT_EQ(roll.code(), 137);
}

TEST(Roll, TheOthersGoOnWhileEnoughAreLeft) {
  Roll roll({.then = OnDeath::go_on, .least = 2});
  roll.started(2);
  roll.started();
  EXPECT_FALSE(roll.died(137));
  EXPECT_EQ(roll.code(), 0);
  EXPECT_EQ(roll.left(), 2);
  roll.started();  // a newcomer counts
  EXPECT_FALSE(roll.died(1));
  EXPECT_TRUE(roll.died(2));
  EXPECT_EQ(roll.code(), 137) << "the first death's";
  EXPECT_EQ(roll.lost(), 3);
}

TEST(Roll, WhoWasAskedToEndIsNotLost) {
  Roll roll({.then = OnDeath::go_on, .least = 1});
  roll.started(3);
  EXPECT_FALSE(roll.died(137));
  roll.all_asked();
  EXPECT_TRUE(roll.died(130));
  EXPECT_EQ(roll.code(), 130);
  EXPECT_EQ(roll.lost(), 1);
}

TEST(Roll, WhoLeavesOnPurposeIsNotLost) {
  Roll roll({.then = OnDeath::go_on, .least = 2});
  roll.started(3);
  roll.went();
  EXPECT_EQ(roll.lost(), 0);
  EXPECT_EQ(roll.left(), 2);
  EXPECT_TRUE(roll.died(137)) << "one too few is left";
  EXPECT_EQ(roll.code(), 137);
}

// For scripts: makes the file; waits for it.
std::string make(const std::string& file) {
  return "touch " + file + "; ";
}
std::string await(const std::string& file) {
  return "while [ ! -e " + file + " ]; do sleep 0.1; done; ";
}

// Workers on this machine, or on two "hosts" over ssh.
class Survival : public testing::TestWithParam<bool> {
 protected:
  Command::Result launch(const std::string& flags, const std::string& script) {
    const std::string launch =
        GetParam() ? "launch --hosts 127.0.0.1:2,localhost --ssh \"$KITH_TEST_SSH\" " : "launch --workers 3 ";
    Words words{"sh", "-c", "exec " KITH_BINARY " " + launch + flags + " -- bash -c \"$0\"", script};
    if (GetParam()) words.insert(words.begin(), TESTS_LAUNCH "/with_sshd");
    return Command(folder_.path(), std::move(words)).wait(60s);
  }

  const TempFolder folder_{"kith-survival-test"};
};
INSTANTIATE_TEST_SUITE_P(Where, Survival, testing::Bool(),
                         [](const auto& param) { return param.param ? "Hosts" : "Workers"; });

TEST_P(Survival, TheOthersFinishWithoutTheDeadAndItIsSaidWhoWasLost) {
  const auto result =
      launch("--least 2", "[ $KITH_WORKER != 0 ] || kill -9 $$; sleep 1; echo $KITH_WORKER finished");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("[1] 1 finished"), HasSubstr("[2] 2 finished")));
  EXPECT_THAT(result.err, AllOf(HasSubstr("kith launch: worker 0 was killed by signal 9"),
                                HasSubstr("kith launch: lost worker 0; the others finished")));
}

TEST_P(Survival, WithTooFewLeftEverybodyEnds) {
  const std::string over = folder_.path() + "/over";
  const auto result =
      launch("--least 2", "case $KITH_WORKER in 0) " + make(over) + "exit 7;; 1) " + await(over) +
                              "sleep 0.5; exit 5;; esac; "
                              "trap 'echo told; kill $!; exit 0' TERM; sleep 46.7 & wait");
  EXPECT_EQ(result.code, 7) << result.err;
  EXPECT_THAT(result.out, HasSubstr("[2] told"));
  EXPECT_THAT(result.err, AllOf(HasSubstr("worker 0 ended with exit code 7"),
                                HasSubstr("worker 1 ended with exit code 5"), Not(HasSubstr("lost"))));
}

TEST_P(Survival, WhoDoesNotEndAfterTheFirstHasIsNamedAndMadeTo) {
  const auto begin = std::chrono::steady_clock::now();
  const auto result = launch("--end-within 1", "[ $KITH_WORKER = 0 ] || exec sleep 47.7");
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  EXPECT_THAT(
      result.err,
      AllOf(testing::ContainsRegex("kith: workers? 1(, worker| and) 2: not ended 1 s after the first"),
            HasSubstr("gets SIGTERM, and SIGKILL 8 s later")));
}

TEST_P(Survival, TheStoreOutlivesEveryWorkerOfItsMachine) {
  const auto result = launch("--least 1",
                             "[ $KITH_WORKER = 2 ] || kill -9 $$; sleep 1; at=${KITH_STORE#tcp://}; "
                             "case $KITH_STORE in tcp:*) exec 3<>/dev/tcp/${at%:*}/${at##*:};; "
                             "*) [ -d ${KITH_STORE%/*} ];; esac && echo reached $KITH_STORE");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(GetParam() ? "[2] reached tcp://127.0.0.1:" : "[2] reached /"));
  if (!GetParam()) return;
  EXPECT_THAT(result.err, AllOf(HasSubstr("the store listens on 127.0.0.1:"),
                                HasSubstr("joining needs the run secret"), HasSubstr("lost worker")));
}

TEST(Newcomers, HaveFreshIdsUntilTheyDieTooQuickly) {
  Newcomers newcomers(4);
  EXPECT_EQ(newcomers.replace(137, 1h), 4);
  EXPECT_EQ(newcomers.replace(2, 1h), std::nullopt) << "bad input";
  EXPECT_EQ(newcomers.replace(137, 1s), 5);
  EXPECT_EQ(newcomers.replace(137, 1s), 6);
  EXPECT_EQ(newcomers.replace(137, 10s), 7);
  EXPECT_EQ(newcomers.replace(137, 1s), 8);
  EXPECT_EQ(newcomers.replace(137, 1s), 9);
  EXPECT_FALSE(newcomers.given_up());
  EXPECT_EQ(newcomers.replace(137, 1s), std::nullopt);
  EXPECT_TRUE(newcomers.given_up());
}

TEST(Elastic, ANewcomerComesForADeadWorker) {
  const TempFolder folder("kith-survival-test");
  const std::string came = folder.path() + "/came";
  const auto result = Command(folder.path(), {KITH_BINARY, "launch", "--elastic", "1:2", "--", "bash", "-c",
                                              "case $KITH_WORKER in 1) kill -9 $$;; 2) " + make(came) +
                                                  ";; esac; " + await(came) +
                                                  "echo $KITH_WORKER of $KITH_WORKERS at $KITH_LOCAL_RANK: "
                                                  "${KITH_NEWCOMER-began}"})
                          .wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("[0] 0 of 2 at 0: began"), HasSubstr("[2] 2 of 2 at 1: 1")));
  EXPECT_THAT(result.err, AllOf(HasSubstr("worker 2 comes for worker 1"),
                                HasSubstr("lost worker 1; the others finished")));
}

TEST(Elastic, WhoAlwaysDiesAtOnceIsNotReplacedForEver) {
  const TempFolder folder("kith-survival-test");
  const std::string go = folder.path() + "/go";
  Command running(folder.path(), {KITH_BINARY, "launch", "--elastic", "1:2", "--", "bash", "-c",
                                  "[ $KITH_WORKER = 0 ] || exit 7; " + await(go)});
  EXPECT_TRUE(running.complains("nobody replaces worker 3")) << running.err();
  std::ofstream(go) << "";
  const auto result = running.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("nobody replaces worker 3"),
                                HasSubstr("lost worker 1, worker 2, worker 3; the others finished")));
}

// Programs that are not kith train's come when they are asked for, and cannot be asked to leave.
TEST(Elastic, IsScaledThroughItsStore) {
  const TempFolder folder("kith-survival-test");
  const std::string store = folder.path() + "/store";
  Command running(folder.path(), {KITH_BINARY, "launch", "--elastic", "1:3", "--workers", "1", "--store",
                                  store, "--", "bash", "-c",
                                  "mkdir -p " + store + "; while [ ! -e " + folder.path() +
                                      "/go ]; do sleep 0.1; done; echo $KITH_WORKER of $KITH_WORKERS: "
                                      "${KITH_NEWCOMER-began}"});
  const auto scale = [&](const char* workers) {
    return Command(folder.path(),
                   {"bash", "-c",
                    "while [ ! -d " + store + " ]; do sleep 0.1; done; " KITH_BINARY " scale " + store + " " +
                        workers})
        .wait(60s);
  };
  const auto more = scale("3");
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(more.out, "3 workers are wanted: worker 1, worker 2 come\n");
  const auto fewer = scale("2");
  EXPECT_EQ(fewer.code, 2);
  EXPECT_THAT(fewer.err, HasSubstr("only its workers leave when they are asked"));
  const auto none = scale("4");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("a number from 1 to 3"));
  EXPECT_EQ(Command(folder.path(), {"touch", folder.path() + "/go"}).wait().code, 0);
  const auto result = running.wait(60s);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("[0] 0 of 1: began"), HasSubstr("[1] 1 of 1: 1"), HasSubstr("[2] 2 of 1: 1")));
}

TEST(Elastic, BadBoundsAreNamed) {
  for (const char* bad : {"3", "0:2", "3:2", "a:b", "1:2x"})
    EXPECT_THROW(parse_elastic(bad), InputError) << bad;
}

TEST(SurvivalFlags, MoreThanThereAreCannotBeLeft) {
  const TempFolder folder("kith-survival-test");
  const auto result =
      Command(folder.path(), {KITH_BINARY, "launch", "--workers", "2", "--least", "3", "--", "true"}).wait();
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--least: 3 workers are to be left, of 2"));
}

}  // namespace
}  // namespace kith::cli

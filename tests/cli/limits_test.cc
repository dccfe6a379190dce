// What the real binary takes of a machine: processor time, memory, files, and what it leaves behind.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "cli/room.h"
#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "tests/support/command.h"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;
using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;

double milliseconds(const timeval& time) {
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
}

// Of all children that have ended.
double processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
}

class Limits : public testing::Test {
 protected:
  Command::Result run(const Words& words, const Command::Variables& variables = {}) {
    return Command(folder_.path(), words, variables).wait();
  }
  Command::Result kith(Words words) {
    words.insert(words.begin(), KITH_BINARY);
    return run(words);
  }

  const TempFolder folder_{"kith-limits-test"};
};

TEST_F(Limits, SimpleCommandsTakeLittleTime) {
  for (const Words& words : {Words{"--help"}, Words{"--version"}, Words{"topo", "exp", "--workers", "8"},
                             Words{"env"}, Words{"trian"}}) {
    double best = 1e9;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const double before = processor_time();
      kith(words);
      best = std::min(best, processor_time() - before);
    }
    EXPECT_LT(best, 50) << "ms of user and system time: kith " << words[0];
  }
}

TEST_F(Limits, SizesAreRefusedBeforeTheyAreTried) {
  const double before = processor_time();
  for (const auto& [words, number] :
       {std::pair{Words{"topo", "ring", "--workers", "2147483647"}, "2147483647"},
        std::pair{Words{"topo", "ring", "--nodes", "4096x4096"}, "16777216"},
        std::pair{Words{"topo", "exp", "--workers", "4096", "--matrices"}, "4096 x 4096"},
        std::pair{Words{"plan", "--profile", KITH_PROFILE, "--nodes", "4096x4096"}, "16777216"},
        std::pair{Words{"plan", "--profile", KITH_PROFILE, "--nodes", "2147483647x2147483647"}, "workers"},
        std::pair{Words{"plan", "--profile", KITH_PROFILE, "--sweep", "workers=8..1000000", "--sweep",
                        "spread=0..0.4"},
                  "1000000"},
        std::pair{Words{"plan", "--profile", "/dev/zero"}, "64.0 MiB"}}) {
    const Command::Result result = kith(words);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(number));
  }
  EXPECT_LT(processor_time() - before, 5000);
}

TEST_F(Limits, WorkersThatDoNotFitAreRefusedBeforeTheFirstIsStarted) {
  const Room room{.memory_bytes = std::int64_t{16} << 30, .files = 1024};
  EXPECT_NO_THROW(require_room(64, kTrainingWorker, room, "--workers"));
  try {
    require_room(4096, kTrainingWorker, room, "--workers");
    FAIL() << "4096 workers in 16 GiB";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("--workers: 4096 workers"), HasSubstr("256.0 GiB"),
                                    HasSubstr("16.0 GiB are free")));
  }
  EXPECT_GT(room_here().memory_bytes, 0);
}

TEST_F(Limits, ALaunchThatNeedsMoreFilesThanAllowedSaysSo) {
  const Command::Result result = run({"sh", "-c", "ulimit -n 128; exec \"$@\"", "sh", KITH_BINARY, "launch",
                                      "--workers", "500", "--", "true"});
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("500 workers need 1064 open files"), HasSubstr("ulimit -n 1064")));
}

TEST_F(Limits, WhatAKilledLauncherLeavesGoesWithTheNext) {
  const fs::path temporary = fs::path(folder_.path()) / "tmp";
  fs::create_directory(temporary);
  const Command::Variables variables{{"TMPDIR", temporary.string()}};
  Command killed(folder_.path(),
                 {KITH_BINARY, "launch", "--workers", "1", "--", "sh", "-c", "echo begun; exec sleep 60"},
                 variables);
  ASSERT_TRUE(killed.says("begun"));
  EXPECT_FALSE(fs::is_empty(temporary));
  ::kill(killed.pid(), SIGKILL);
  EXPECT_EQ(killed.wait().code, 128 + SIGKILL);
  EXPECT_EQ(run({KITH_BINARY, "launch", "--workers", "1", "--", "true"}, variables).code, 0);
  EXPECT_TRUE(fs::is_empty(temporary)) << "secret, store and folder";
}

}  // namespace
}  // namespace kith::cli

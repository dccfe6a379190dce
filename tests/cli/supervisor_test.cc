#include "cli/supervisor.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace kith::cli {
namespace {

using namespace std::chrono_literals;

// A thread that a library started before may take SIGCHLD and forget it. About one end in ten was missed so.
TEST(SupervisorTest, SeesAnEndWhoseSignalAnotherThreadTook) {
  std::atomic<bool> over{false};
  std::thread thief([&] {
    while (!over)
      std::this_thread::sleep_for(1ms);
  });
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 40; ++round) {
    Supervisor supervisor;
    supervisor.start({.command = {"true"}});
    EXPECT_EQ(supervisor.wait(), 0);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
  over = true;
  thief.join();
}

}  // namespace
}  // namespace kith::cli

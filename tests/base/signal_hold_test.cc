#include "kith/base/signal_hold.h"

#include <thread>

#include <gtest/gtest.h>

namespace kith {
namespace {

bool takes(int signal) {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 0;
}

TEST(SignalHoldTest, ThreadsThatBeginMeanwhileTakeNoSignals) {
  bool began_before = false, began_meanwhile = true, after = false;
  std::thread([&] { began_before = takes(SIGCHLD); }).join();
  {
    const SignalHold hold;
    std::thread([&] { began_meanwhile = takes(SIGCHLD) || takes(SIGINT); }).join();
    EXPECT_FALSE(takes(SIGTERM));
  }
  after = takes(SIGCHLD) && takes(SIGINT) && takes(SIGTERM);
  EXPECT_TRUE(began_before);
  EXPECT_FALSE(began_meanwhile);
  EXPECT_TRUE(after);
}

}  // namespace
}  // namespace kith

#include "cli/interrupt_watch.h"

#include <chrono>
#include <cstdlib>
#include <iostream>

namespace kith::cli {
namespace {

// One Ctrl-C may come by two ways, from the terminal and from a launcher.
constexpr auto kTogether = std::chrono::milliseconds(500);

sigset_t interrupt_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

InterruptWatch::InterruptWatch() {
  const sigset_t set = interrupt_set();
  ::pthread_sigmask(SIG_BLOCK, &set, &previous_);
  thread_ = std::thread([this] { watch(); });
}

InterruptWatch::~InterruptWatch() {
  over_ = true;
  thread_.join();
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void InterruptWatch::watch() {
  using SteadyTime = std::chrono::steady_clock;
  const sigset_t set = interrupt_set();
  const timespec pause{0, 50'000'000};
  SteadyTime::time_point first{};
  while (!over_) {
    if (::sigtimedwait(&set, nullptr, &pause) != SIGINT) continue;
    if (!begun_) std::_Exit(kInterrupted);
    if (!interrupted_) {
      first = SteadyTime::now();
      interrupted_ = true;
    } else if (SteadyTime::now() - first > kTogether) {
      std::_Exit(kInterrupted);
    }
  }
}

}  // namespace kith::cli

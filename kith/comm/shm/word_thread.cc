#include "kith/comm/shm/word_thread.h"

#include <utility>

#include <signal.h>

#include "kith/comm/mapped/futex.h"
#include "kith/comm/shm/short_turns.h"

namespace kith::comm::shm {
namespace {

// Every wake-up is also looked for by hand, should one ever be missed.
constexpr Clock::Duration kRecheck = std::chrono::seconds(1);
constexpr Clock::Duration kRing = std::chrono::milliseconds(1);

}  // namespace

void keep_to_the_background() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ask_for_short_turns();
}

WordThread::WordThread(const std::atomic<std::uint32_t>& word, bool (*done)(std::uint32_t),
                       std::function<void()> then)
    : word_(word), thread_([this, done, then = std::move(then)] { run(done, then); }) {}

WordThread::~WordThread() {
  stop_.store(true);
  // The word is not this side's to change, so a thread about to fall asleep misses the bell: ring until it
  // ends.
  while (ended_.load() == 0) {
    mapped::futex_wake_all(word_);
    mapped::futex_wait(ended_, 0, SteadyClock().now() + kRing);
  }
  thread_.join();
}

void WordThread::run(bool (*done)(std::uint32_t), const std::function<void()>& then) {
  keep_to_the_background();
  while (!stop_.load()) {
    const std::uint32_t seen = word_.load();
    if (done(seen)) {
      then();
      break;
    }
    mapped::futex_wait(word_, seen, SteadyClock().now() + kRecheck);
  }
  ended_.store(1);
  mapped::futex_wake_all(ended_);
}

}  // namespace kith::comm::shm

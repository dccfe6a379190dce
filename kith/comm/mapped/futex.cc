#include "kith/comm/mapped/futex.h"

#include <climits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace kith::comm::mapped {

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) {
  // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, which is what steady_clock reads.
  const auto since_start = deadline.time_since_epoch();
  if (since_start.count() <= 0) return;
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(since_start);
  timespec until{};
  until.tv_sec = whole.count();
  until.tv_nsec = (since_start - whole).count();
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void notify(protocol::Signal& signal) {
  if (signal.waiters.load() == 0) return;
  signal.event.fetch_add(1);
  futex_wake_all(signal.event);
}

}  // namespace kith::comm::mapped

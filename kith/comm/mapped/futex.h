#pragma once

#include <atomic>
#include <cstdint>

#include "kith/base/clock.h"
#include "kith/comm/protocol/layout.h"

namespace kith::comm::mapped {

// Sleeps while `word` holds `expected`, at most until the deadline; may return early for no reason. Works
// across processes. Never throws.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline);
void futex_wake_all(const std::atomic<std::uint32_t>& word);

// Call after the condition has changed. Costs one load when nobody waits.
void notify(protocol::Signal& signal);

// One wait on a signal: counts itself among the waiters while it lives.
//   Waiting waiting(signal);
//   for (;;) { const auto events = waiting.events(); if (condition) break; waiting.sleep(events, deadline); }
class Waiting {
 public:
  explicit Waiting(protocol::Signal& signal) : signal_(signal) { signal_.waiters.fetch_add(1); }
  ~Waiting() { signal_.waiters.fetch_sub(1); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  std::uint32_t events() const { return signal_.event.load(); }
  void sleep(std::uint32_t events, Deadline deadline) const { futex_wait(signal_.event, events, deadline); }

 private:
  protocol::Signal& signal_;
};

}  // namespace kith::comm::mapped

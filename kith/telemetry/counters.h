#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "kith/telemetry/event.h"

namespace kith::telemetry {

// A number that many threads add to.
class Counter {
 public:
  void add(std::int64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

// Counters by name. Look a counter up once and keep the reference: it stays valid as long as this object.
// Safe from any thread.
class Counters {
 public:
  // The counter of that name, which begins at 0.
  Counter& at(std::string_view name);

  // All counters, ascending by name. Each value is exact, but they are not read at one instant.
  CounterSample sample(std::string_view name, WorkerId worker, Clock::Time time) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Counter>, std::less<>> counters_;  // guarded by mutex_
};

}  // namespace kith::telemetry

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kith/base/clock.h"

namespace kith::comm {

// A small shared dictionary for finding each other and agreeing on rare things
// (addresses, a save at a future step). Never in the path of a round. Safe
// from any thread; every implementation is shared by all workers of a run.
class Store {
 public:
  virtual ~Store() = default;

  virtual void set(std::string_view key, std::string_view value) = 0;
  virtual std::optional<std::string> get(std::string_view key) = 0;
  // Waits for the key; nothing when the deadline passes first.
  virtual std::optional<std::string> wait(std::string_view key, Deadline deadline) = 0;
  // Adds to a counter that starts at 0, atomically among all workers; returns the new value.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;
  // Sets the key only if it is absent; returns the value it has afterwards (the first writer's).
  virtual std::string set_once(std::string_view key, std::string_view value) = 0;
};

}  // namespace kith::comm

#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "kith/base/clock.h"

namespace kith::comm {

// A small shared dictionary for finding each other and agreeing on rare things
// (addresses, a save at a future step). Never in the path of a round: a store
// that is slow holds up who asks it. Safe from any thread; every implementation
// is shared by all workers of a run. Error when the store is lost.
class Store {
 public:
  virtual ~Store() = default;

  virtual void set(std::string_view key, std::string_view value) = 0;
  virtual std::optional<std::string> get(std::string_view key) = 0;
  // Waits for the key; nothing when the deadline passes or a stop is requested first. The stop ends the call
  // at once, whatever the store does, and no other call; so a thread that watches a key is
  //   std::jthread watcher([&](std::stop_token stop) {
  //     if (auto value = store.wait(key, Deadline::max(), stop)) ...
  //   });
  // and its destructor does not wait. A key that is there counts even when the deadline has passed.
  std::optional<std::string> wait(std::string_view key, Deadline deadline, std::stop_token stop = {}) {
    return wait_for(key, deadline, std::move(stop));
  }
  // Adds to a counter that starts at 0, atomically among all workers; returns the new value.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;
  // Sets the key only if it is absent; returns the value it has afterwards (the first writer's).
  virtual std::string set_once(std::string_view key, std::string_view value) = 0;

 private:
  virtual std::optional<std::string> wait_for(std::string_view key, Deadline deadline,
                                              std::stop_token stop) = 0;
};

}  // namespace kith::comm

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
//
// A stop ends the call for which it is requested at once, whatever the store does, and no other call; so a
// thread that watches a key is
//   std::jthread watcher([&](std::stop_token stop) {
//     if (auto value = store.wait(key, Deadline::max(), stop)) ...
//   });
// and its destructor does not wait. Calls other than wait then end in Error, and whether the store has heard
// of them is not known.
class Store {
 public:
  virtual ~Store() = default;

  void set(std::string_view key, std::string_view value, std::stop_token stop = {}) {
    set_for(key, value, std::move(stop));
  }
  std::optional<std::string> get(std::string_view key, std::stop_token stop = {}) {
    return get_for(key, std::move(stop));
  }
  // Waits for the key; nothing when the deadline passes or a stop is requested first. A key that is there
  // counts even when the deadline has passed.
  std::optional<std::string> wait(std::string_view key, Deadline deadline, std::stop_token stop = {}) {
    return wait_for(key, deadline, std::move(stop));
  }
  // Adds to a counter that starts at 0, atomically among all workers; returns the new value.
  std::int64_t add(std::string_view key, std::int64_t delta, std::stop_token stop = {}) {
    return add_for(key, delta, std::move(stop));
  }
  // Sets the key only if it is absent; returns the value it has afterwards (the first writer's).
  std::string set_once(std::string_view key, std::string_view value, std::stop_token stop = {}) {
    return set_once_for(key, value, std::move(stop));
  }

 private:
  virtual void set_for(std::string_view key, std::string_view value, std::stop_token stop) = 0;
  virtual std::optional<std::string> get_for(std::string_view key, std::stop_token stop) = 0;
  virtual std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) = 0;
  virtual std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) = 0;
  virtual std::optional<std::string> wait_for(std::string_view key, Deadline deadline,
                                              std::stop_token stop) = 0;
};

}  // namespace kith::comm

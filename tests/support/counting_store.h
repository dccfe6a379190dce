#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "kith/comm/store.h"

namespace kith::support {

// Counts what is asked of a store, by the thread that asks.
class CountingStore final : public comm::Store {
 public:
  explicit CountingStore(comm::Store& store) : store_(store) {}

  int calls_of_this_thread() const {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(std::this_thread::get_id());
    return found == calls_.end() ? 0 : found->second;
  }

 private:
  void set_for(std::string_view key, std::string_view value, std::stop_token stop) override {
    counted().set(key, value, std::move(stop));
  }
  std::optional<std::string> get_for(std::string_view key, std::stop_token stop) override {
    return counted().get(key, std::move(stop));
  }
  std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) override {
    return counted().add(key, delta, std::move(stop));
  }
  std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) override {
    return counted().set_once(key, value, std::move(stop));
  }
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline,
                                      std::stop_token stop) override {
    return counted().wait(key, deadline, std::move(stop));
  }
  comm::Store& counted() {
    const std::lock_guard lock(mutex_);
    ++calls_[std::this_thread::get_id()];
    return store_;
  }

  comm::Store& store_;
  mutable std::mutex mutex_;  // guards calls_
  std::map<std::thread::id, int> calls_;
};

}  // namespace kith::support

#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "kith/comm/store.h"
#include "tests/support/worlds.h"

namespace kith::support {

// The store of a worker, which dies when it comes to write a key that has `part` in it; empty: never.
class DeadlyStore final : public comm::Store {
 public:
  DeadlyStore(Worker& worker, std::string part) : worker_(worker), part_(std::move(part)) {}

 private:
  void look(std::string_view key) {
    if (!part_.empty() && key.find(part_) != std::string_view::npos) die(worker_);
  }
  void set_for(std::string_view key, std::string_view value, std::stop_token stop) override {
    look(key);
    worker_.store.set(key, value, std::move(stop));
  }
  std::optional<std::string> get_for(std::string_view key, std::stop_token stop) override {
    return worker_.store.get(key, std::move(stop));
  }
  std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) override {
    return worker_.store.add(key, delta, std::move(stop));
  }
  std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) override {
    look(key);
    return worker_.store.set_once(key, value, std::move(stop));
  }
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline,
                                      std::stop_token stop) override {
    return worker_.store.wait(key, deadline, std::move(stop));
  }

  Worker& worker_;
  const std::string part_;
};

}  // namespace kith::support

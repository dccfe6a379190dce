#pragma once

#include <string>
#include <utility>

#include "kith/base/text.h"
#include "kith/comm/store.h"

namespace kith::comm {

// The keys of another store that begin with a prefix, under their names without it: what two users of one
// store call alike stays apart. The other store outlives it.
class PrefixStore final : public Store {
 public:
  PrefixStore(Store& store, std::string prefix) : store_(store), prefix_(std::move(prefix)) {}

 private:
  void set_for(std::string_view key, std::string_view value, std::stop_token stop) override {
    store_.set(cat(prefix_, key), value, std::move(stop));
  }
  std::optional<std::string> get_for(std::string_view key, std::stop_token stop) override {
    return store_.get(cat(prefix_, key), std::move(stop));
  }
  std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) override {
    return store_.add(cat(prefix_, key), delta, std::move(stop));
  }
  std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) override {
    return store_.set_once(cat(prefix_, key), value, std::move(stop));
  }
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline,
                                      std::stop_token stop) override {
    return store_.wait(cat(prefix_, key), deadline, std::move(stop));
  }

  Store& store_;
  const std::string prefix_;
};

}  // namespace kith::comm

#pragma once

#include <stop_token>

#include "kith/comm/store.h"

namespace kith::python {

// Another store, which outlives it, until end(): from then on every call, under way or yet to come, is an
// Error.
class EndingStore final : public comm::Store {
 public:
  explicit EndingStore(comm::Store& store) : store_(store) {}

  // Safe from any thread.
  void end() { end_.request_stop(); }

 private:
  template <class Call>
  auto until_end(const std::stop_token& stop, Call call);
  void set_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> get_for(std::string_view key, std::stop_token stop) override;
  std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) override;
  std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline, std::stop_token stop) override;

  comm::Store& store_;
  std::stop_source end_;
};

}  // namespace kith::python

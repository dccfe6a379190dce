#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "kith/comm/store.h"

namespace kith::comm {

// For workers that are threads of one process.
class MemoryStore final : public Store {
 private:
  void set_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> get_for(std::string_view key, std::stop_token stop) override;
  std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) override;
  std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline, std::stop_token stop) override;
  std::mutex mutex_;  // guards values_
  std::condition_variable_any changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace kith::comm

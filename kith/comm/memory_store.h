#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "kith/comm/store.h"

namespace kith::comm {

// For workers that are threads of one process.
class MemoryStore final : public Store {
 public:
  void set(std::string_view key, std::string_view value) override;
  std::optional<std::string> get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  std::string set_once(std::string_view key, std::string_view value) override;

 private:
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline, std::stop_token stop) override;
  std::mutex mutex_;  // guards values_
  std::condition_variable_any changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace kith::comm

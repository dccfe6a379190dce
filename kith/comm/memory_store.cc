#include "kith/comm/memory_store.h"

#include <utility>

#include "kith/comm/counter_text.h"

namespace kith::comm {

void MemoryStore::set_for(std::string_view key, std::string_view value, std::stop_token) {
  std::lock_guard lock(mutex_);
  values_.insert_or_assign(std::string(key), std::string(value));
  changed_.notify_all();
}

std::optional<std::string> MemoryStore::get_for(std::string_view key, std::stop_token) {
  std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> MemoryStore::wait_for(std::string_view key, Deadline deadline,
                                                 std::stop_token stop) {
  std::unique_lock lock(mutex_);
  const bool came =
      changed_.wait_until(lock, std::move(stop), deadline, [&] { return values_.contains(key); });
  return came ? std::optional(values_.find(key)->second) : std::nullopt;
}

std::int64_t MemoryStore::add_for(std::string_view key, std::int64_t delta, std::stop_token) {
  std::lock_guard lock(mutex_);
  const auto entry = values_.try_emplace(std::string(key), "0").first;
  const std::int64_t sum = add_to_counter(key, entry->second, delta);
  entry->second = std::to_string(sum);
  changed_.notify_all();
  return sum;
}

std::string MemoryStore::set_once_for(std::string_view key, std::string_view value, std::stop_token) {
  std::lock_guard lock(mutex_);
  const auto [entry, fresh] = values_.try_emplace(std::string(key), value);
  if (fresh) changed_.notify_all();
  return entry->second;
}

}  // namespace kith::comm

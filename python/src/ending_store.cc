#include "python/src/ending_store.h"

#include <type_traits>

#include "kith/base/error.h"

namespace kith::python {

template <class Call>
auto EndingStore::until_end(const std::stop_token& stop, Call call) {
  std::stop_source either;
  const std::stop_callback on_end(end_.get_token(), [&] { either.request_stop(); });
  const std::stop_callback on_stop(stop, [&] { either.request_stop(); });
  const auto require_open = [&] {
    if (end_.stop_requested())
      throw Error("this worker was interrupted", "the store", "go on from a checkpoint");
  };
  require_open();
  if constexpr (std::is_void_v<std::invoke_result_t<Call, std::stop_token>>) {
    call(either.get_token());
  } else {
    auto result = call(either.get_token());
    require_open();
    return result;
  }
}

void EndingStore::set_for(std::string_view key, std::string_view value, std::stop_token stop) {
  until_end(stop, [&](std::stop_token token) { store_.set(key, value, std::move(token)); });
}

std::optional<std::string> EndingStore::get_for(std::string_view key, std::stop_token stop) {
  return until_end(stop, [&](std::stop_token token) { return store_.get(key, std::move(token)); });
}

std::int64_t EndingStore::add_for(std::string_view key, std::int64_t delta, std::stop_token stop) {
  return until_end(stop, [&](std::stop_token token) { return store_.add(key, delta, std::move(token)); });
}

std::string EndingStore::set_once_for(std::string_view key, std::string_view value, std::stop_token stop) {
  return until_end(stop,
                   [&](std::stop_token token) { return store_.set_once(key, value, std::move(token)); });
}

std::optional<std::string> EndingStore::wait_for(std::string_view key, Deadline deadline,
                                                 std::stop_token stop) {
  return until_end(stop, [&](std::stop_token token) { return store_.wait(key, deadline, std::move(token)); });
}

}  // namespace kith::python

#include "kith/comm/will_store.h"

#include "kith/base/text.h"

namespace kith::comm {

std::string list_key(std::string_view list, int number) {
  return cat(list, "/", number);
}

std::string_view list_of(std::string_view key) {
  const auto slash = key.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : key.substr(0, slash);
}

std::string put_on_list(Store& store, std::string_view list, std::string_view value) {
  for (int number = 1;; ++number) {
    std::string key = list_key(list, number);
    if (store.set_once(key, value) == value) return key;
  }
}

}  // namespace kith::comm

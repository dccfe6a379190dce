#include "kith/comm/counter_text.h"

#include <charconv>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::comm {

std::int64_t parse_counter(std::string_view key, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) {
    throw Error(cat("'", text, "' is not a counter"), cat("store key '", key, "'"),
                "add and set need different keys");
  }
  return value;
}

std::int64_t add_to_counter(std::string_view key, std::string_view text, std::int64_t delta) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(parse_counter(key, text), delta, &sum))
    throw Error(cat(text, " + ", delta, " is more than a counter holds"), cat("store key '", key, "'"));
  return sum;
}

}  // namespace kith::comm

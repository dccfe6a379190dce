#pragma once

#include <cstdint>
#include <string_view>

namespace kith::comm {

// A store keeps counters as decimal text. Error naming the key when its value is not one.
std::int64_t parse_counter(std::string_view key, std::string_view text);
// The counter and delta; Error also when the sum is too large.
std::int64_t add_to_counter(std::string_view key, std::string_view text, std::int64_t delta);

}  // namespace kith::comm

#pragma once

#include <cstdint>
#include <string_view>

namespace kith::comm {

// A store keeps counters as decimal text. Error naming the key when its value is not one.
std::int64_t parse_counter(std::string_view key, std::string_view text);

}  // namespace kith::comm

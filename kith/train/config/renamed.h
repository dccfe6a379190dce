#pragma once

#include <string>
#include <string_view>

namespace kith::train {

// What names and values of older configurations are called now, for errors that say so; empty when they never
// had another name.
//   section "schedule" -> "rate"
//   key     "schedule.name" -> "rate.curve"
//   value   "own" of "wire.type" -> "full"
std::string renamed_section(std::string_view section);
std::string renamed_key(std::string_view key);
std::string renamed_value(std::string_view key, std::string_view value);

}  // namespace kith::train

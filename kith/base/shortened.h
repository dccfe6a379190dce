#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kith {

// The text, or its beginning and end when it is longer than about `most` characters: what a message shows of
// input that may be anything.
std::string shortened(std::string_view text, std::size_t most);

}  // namespace kith

#pragma once

#include <string>

namespace kith {

// This machine's name, for people; "?" where it has none.
std::string host_name();

}  // namespace kith

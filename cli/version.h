#pragma once

#include <string>

namespace kith::cli {

// "kith 0.1.0", then a line for each thing it was built with.
std::string version_text();

}  // namespace kith::cli

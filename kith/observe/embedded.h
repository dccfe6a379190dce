#pragma once

#include <string_view>

namespace kith::observe {

// The files of web/, as the build found them.
extern const std::string_view kPage;
extern const std::string_view kStyle;
extern const std::string_view kScript;

}  // namespace kith::observe

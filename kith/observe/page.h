#pragma once

#include <string>
#include <string_view>

namespace kith::observe {

// A page whole in itself: style, script (web/) and data inside, nothing from elsewhere. `data` is JSON
// without a "<" (page_text). `nonce` is what the server's policy lets scripts run by; empty in a file.
std::string page(std::string_view title, std::string_view data, std::string_view nonce = {});

}  // namespace kith::observe

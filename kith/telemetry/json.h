#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kith::telemetry {

// For what is rare, or read; what every step writes is JsonObject's (json_text.h). Included by this layer's
// sources only.
using Json = nlohmann::ordered_json;

// One line. Bytes that are not UTF-8 become U+FFFD, numbers that JSON lacks (NaN, infinity) become null.
inline std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kith::telemetry

#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "kith/telemetry/event.h"

namespace kith::telemetry {

// Keys stay in the order in which they are written. Included by this layer's sources only.
using Json = nlohmann::ordered_json;

inline Json json_of(const Args& args) {
  Json object = Json::object();
  for (const auto& [name, value] : args) {
    std::visit([&, &key = name](const auto& v) { object[key] = v; }, value);
  }
  return object;
}

inline Json json_of(const std::vector<std::pair<std::string, std::int64_t>>& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values)
    object[name] = value;
  return object;
}

// One line. Bytes that are not UTF-8 become U+FFFD, numbers that JSON lacks (NaN, infinity) become null.
inline std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kith::telemetry

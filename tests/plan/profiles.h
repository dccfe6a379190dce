#pragma once

#include <nlohmann/json.hpp>

#include "kith/plan/profile.h"

namespace kith::plan {

// A small profile, as JSON for tests to break and as a Profile.
inline nlohmann::json profile_json() {
  return nlohmann::json::parse(R"({
    "kith_profile": 1,
    "name": "small",
    "nodes": "4x4",
    "forward": {"mean": "10ms", "cv": 0.05},
    "buckets": [
      {"bytes": "25MB", "backward": {"mean": "4ms", "cv": 0.1, "shape": "normal"}, "step": "0.5ms", "repeat": 4},
      {"bytes": "50MB", "backward": {"samples": ["3ms", "5ms"]}, "step": "1ms"}
    ],
    "batch": {"cv": 0.1},
    "links": {
      "inside": {"latency": "5us", "bandwidth": "20GB/s"},
      "between": {"latency": "20us", "bandwidth": "10gbit"},
      "nic": "25gbit"
    }
  })");
}

inline Profile small_profile() {
  return parse_profile(profile_json().dump(), "small.json");
}

}  // namespace kith::plan

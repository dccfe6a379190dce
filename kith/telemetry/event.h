#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/ids.h"

namespace kith::telemetry {

using Value = std::variant<std::int64_t, double, std::string>;
using Args = std::vector<std::pair<std::string, Value>>;

// Something that a worker did, and for how long. Events of one track do not overlap unless one contains the
// other.
struct Event {
  std::string name;      // "mix", "await"
  std::string category;  // the layer that tells: "gossip", "comm"
  WorkerId worker;
  std::string track = "main";  // a line of the picture, normally one per thread: "main", "communication"
  Clock::Time start{};
  Clock::Duration duration{};
  Args args;
};

// One end of an arrow from something that a worker did to what another one made of it. Both ends have the
// same name and id; each lies on whatever event its track has at that time.
struct FlowEnd {
  enum class Side { begin, end };

  std::string name;  // "version"
  std::string id;    // of the arrow, the same in both workers' files
  Side side = Side::begin;
  WorkerId worker;
  std::string track = "main";
  Clock::Time time{};
};

// The values of some counters at one moment.
struct CounterSample {
  std::string name;  // what the values have in common: "bytes"
  WorkerId worker;
  Clock::Time time{};
  std::vector<std::pair<std::string, std::int64_t>> values;
};

}  // namespace kith::telemetry

#pragma once

#include <iosfwd>
#include <optional>
#include <string>

namespace kith::bench {

// A line that a benchmark writes to one of its workers: "VERB MODE UNTIMED TIMED"; what is missing is empty.
struct Order {
  std::string verb, mode;
  int untimed = 0, timed = 0;
};

// None at the end.
std::optional<Order> next_order(std::istream& in);

}  // namespace kith::bench

#pragma once

#include <string>

namespace kith::bench {

// What a process holds, and has used since it began.
struct Usage {
  double processor_s = 0;  // user and system
  double memory_kb = 0;    // of its own, and its share of what it shares; without the program itself
  int descriptors = 0;
  int threads = 0;

  std::string text() const;
  static Usage parse(const std::string& text);
};

Usage own_usage();

}  // namespace kith::bench

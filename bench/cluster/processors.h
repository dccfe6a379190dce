#pragma once

namespace kith::bench {

// What the machine's processors did so far, all together, in seconds.
struct ProcessorTimes {
  double kernel = 0;  // system calls and interrupts: with shaped links, mostly the network
  double idle = 0;
  double all = 0;

  static ProcessorTimes now();  // from /proc/stat
};

inline ProcessorTimes operator-(const ProcessorTimes& a, const ProcessorTimes& b) {
  return {a.kernel - b.kernel, a.idle - b.idle, a.all - b.all};
}

}  // namespace kith::bench

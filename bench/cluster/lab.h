#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/common/peer_process.h"

namespace kith::bench {

struct LinkMeasurement {
  double bytes_per_s = 0;     // of TCP payload, each way
  double cpu_s_per_byte = 0;  // processor time of each byte at each of its two ends, the switch included
};

// Hosts of this machine behind links of a rate: share/hostlab, driven through its standard input.
class HostLab {
 public:
  // Links without a limit. Error when there is no lab to be had (it says why on standard error).
  explicit HostLab(int hosts);

  int hosts() const { return static_cast<int>(pids_.size()); }

  // "500mbit", "2.5gbit", "none": every host's link, both directions.
  void set_rate(const std::string& rate);

  // Bytes that each host has sent so far, as its interface counted them.
  std::vector<double> sent();
  // Waits until the hosts send no more: what was under way has arrived.
  void wait_until_quiet();

  // The command line that runs a command on a host, in this program's own environment. REQUIRES: absolute
  // paths.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;
  static std::string address(int host);

  // Of two hosts that send so much to each other at the same time.
  LinkMeasurement measure_link(int megabytes);

 private:
  PeerProcess lab_;
  std::vector<std::string> pids_;
};

}  // namespace kith::bench

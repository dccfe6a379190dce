#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "kith/comm/transport.h"

namespace kith::gossip {

// One message takes latency + bytes / rate, while as much flows the other way.
struct LinkTimes {
  double latency_s = 0;
  double bytes_per_s = 0;
};

struct LinkReport {
  std::optional<LinkTimes> inside;        // two workers of one machine
  std::optional<LinkTimes> between;       // one flow between two machines
  std::optional<double> nic_bytes_per_s;  // all workers of a machine at once, in each direction
};

struct LinkProbeOptions {
  std::size_t bytes = std::size_t{4} << 20;            // of a large message
  Clock::Duration duration = std::chrono::seconds(1);  // of each measurement, about
  int most_pairs = 4;                                  // of machines that are measured
  Clock::Duration patience = std::chrono::seconds(60);
};

// Measures the links over the transport itself, pair after pair, with nobody else talking. Collective: every
// member calls it; all get the same report. Error when a member is missing.
LinkReport probe_links(comm::Transport& transport, const Members& members, const Clock& clock,
                       const LinkProbeOptions& options);

// Bytes per second that one worker reads and writes in a fused pass of its kernels, all members at once.
double probe_memory(comm::Transport& transport, const Members& members, const Clock& clock,
                    const LinkProbeOptions& options);

}  // namespace kith::gossip

#pragma once

#include <cstdint>
#include <map>

#include "kith/base/clock.h"
#include "kith/base/ids.h"

namespace kith::comm {

// What passed between this worker and one peer.
struct PeerLedger {
  bool other_machine = false;  // what passed crossed from one machine to another
  std::uint64_t arrivals = 0;
  std::uint64_t bytes_read = 0;  // payload of the arrivals
  std::uint64_t late = 0;
  std::uint64_t lost = 0;    // awaits that ended in lost
  Clock::Duration waited{};  // in await and newest
  Clock::Duration longest_wait{};
  std::uint64_t versions_named = 0;  // versions published with this peer among the readers
  std::uint64_t bytes_offered = 0;   // payload of those
  Clock::Duration held_up{};         // in begin, while this peer held the slot
};

using Ledger = std::map<WorkerId, PeerLedger>;

// Payload offered to readers on other machines.
inline std::uint64_t bytes_sent_across(const Ledger& ledger) {
  std::uint64_t bytes = 0;
  for (const auto& [peer, line] : ledger)
    if (line.other_machine) bytes += line.bytes_offered;
  return bytes;
}

}  // namespace kith::comm

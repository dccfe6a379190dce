#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/ids.h"
#include "kith/comm/cancellation.h"
#include "kith/comm/transport.h"

namespace kith::launch {

// Bytes of any number from one worker to another, in pieces of a few megabytes through a window of the two.
// Both name it alike. Bounded by the deadline, which is for all of it; Error when the other one is lost, does
// not come, or the cancellation ends it.
struct ParcelOptions {
  std::string name;
  WorkerId from;
  WorkerId to;
  Deadline deadline{};
  std::shared_ptr<comm::Cancellation> cancellation = {};
};

// Returns when the receiver has all of it.
void send_parcel(comm::Transport& transport, const ParcelOptions& options, std::span<const std::byte> bytes);
std::vector<std::byte> receive_parcel(comm::Transport& transport, const ParcelOptions& options);

}  // namespace kith::launch

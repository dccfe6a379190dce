#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "kith/comm/protocol/layout.h"

namespace kith::comm::ucx {

// What two workers on different machines say to each other on their lifeline.

// The first words. Later protocols keep the first three fields.
struct Hello {
  std::uint64_t magic = protocol::kMagic;
  std::uint32_t protocol = protocol::kProtocol;
  std::int32_t worker = -1;
  std::uint64_t workers_digest = 0;
  std::uint64_t token = 0;  // to be shown in messages to the sender
  std::uint64_t lanes = 0;
};
struct Greeting {
  Hello hello;
  std::string address;  // of the sender's UCX worker, its digest goes along; empty for another protocol
};
struct WindowOpened {
  protocol::Head head;
  std::uint64_t number = 0;  // the sender's for the window
  std::string name;
};
struct Beat {};
struct Farewell {
  std::uint64_t stripes = 0;  // sent in all
};
struct FarewellHeard {};

using LifelineMessage = std::variant<Greeting, WindowOpened, Beat, Farewell, FarewellHeard>;

std::string encode(const LifelineMessage& message);

// What a peer sent may be anything: nothing when it is not such a message.
std::optional<LifelineMessage> parse_lifeline(std::string_view bytes);

}  // namespace kith::comm::ucx

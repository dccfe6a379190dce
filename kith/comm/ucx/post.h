#pragma once

#include <span>

#include "kith/comm/ucx/message.h"
#include "kith/comm/ucx/worker.h"

namespace kith::comm::ucx {

// Carries messages to peers, who are named by their index. Token and sender of the headers are filled in.
// What is meant for a peer that is gone vanishes, `done` told so. One thread at a time.
class Post {
 public:
  // A few words; in the order they are told.
  virtual void tell(int peer, const Envelope& envelope) = 0;
  // A version's part. The payload stays where it is until `done`.
  virtual void send(int peer, const DataHeader& header, std::span<const std::byte> payload, Done done) = 0;
  // False while enough is under way to keep the link busy: what is sent first should arrive first.
  virtual bool has_room(int peer) const = 0;

 protected:
  ~Post() = default;
};

}  // namespace kith::comm::ucx

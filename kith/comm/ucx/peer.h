#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kith/comm/ucx/lifeline.h"
#include "kith/comm/ucx/message.h"
#include "kith/comm/ucx/worker.h"

namespace kith::comm::ucx {

// A worker elsewhere: the lifeline to it, and the lanes on which messages go. One thread at a time.
class Peer {
 public:
  // `self` is the sender's index among the workers. A peer must show `token` in its messages.
  Peer(int self, std::uint64_t token) : self_(self), token_(token) {}

  std::uint64_t token() const { return token_; }
  std::optional<Lifeline>& lifeline() { return lifeline_; }

  // Opens the lanes. The peer's own token goes into every message to it.
  void meet(Worker& worker, const std::string& address, std::uint64_t token, int lanes,
            std::function<void(std::string_view why)> on_failure);
  bool met() const { return !lanes_.empty(); }

  void tell(Envelope envelope);
  // In as many stripes as there are lanes, where it is long. `done` is told once, when all have ended.
  void send(DataHeader header, std::span<const std::byte> payload, Done done);
  bool has_room() const;
  bool busy() const { return in_flight_ > 0; }

  // Stripes that went out whole, and those of the peer that came or were dropped.
  std::uint64_t sent() const { return sent_; }
  std::uint64_t received() const { return received_; }
  void count_received() { ++received_; }

  // Closes the lanes; what is under way ends incomplete.
  void close();
  bool closed() const;

 private:
  struct Letter;

  const int self_;
  const std::uint64_t token_;
  std::optional<Lifeline> lifeline_;
  std::uint64_t their_token_ = 0;
  std::vector<std::unique_ptr<Endpoint>> lanes_;
  int in_flight_ = 0;  // messages of any kind
  int parts_in_flight_ = 0;
  std::size_t bytes_in_flight_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace kith::comm::ucx

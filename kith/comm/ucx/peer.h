#pragma once

#include <cstdint>
#include <deque>
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

  // What a peer told of itself: where its worker is, what to show in messages to it, and how many lanes it
  // opens.
  struct Introduction {
    std::string address;
    std::uint64_t token = 0;
    int lanes = 1;
  };
  // Opens the lanes, and greets on each: UCX 1.13 must not close one that is only half open.
  void meet(Worker& worker, const Introduction& theirs, int lanes,
            const std::function<void(std::string_view why)>& on_failure);
  bool met() const { return !lanes_.empty(); }
  static constexpr int kMostLanes = 64;
  void count_greeting();
  // Messages pass in both directions on every lane.
  bool open() const { return met() && greetings_due_ == 0 && greetings_in_flight_ == 0; }

  void tell(const Envelope& envelope);
  // In stripes that fit a segment, on all lanes by turns, a few at a time: a long part must not hold up the
  // words of this worker, nor wait for the peer's. `done` is told once, when all have ended.
  void send(DataHeader header, std::span<const std::byte> payload, Done done);
  bool has_room() const;
  // Something is under way, or the lanes are not open yet.
  bool busy() const { return in_flight_ > 0 || !open(); }

  // Stripes that went out whole, and those of the peer that came or were dropped.
  std::uint64_t sent() const { return sent_; }
  std::uint64_t received() const { return received_; }
  void count_received() { ++received_; }

  // Closes the lanes; what is under way ends incomplete.
  void close();
  bool closed() const;

 private:
  struct Letter;
  // Sends stripes of the letters, while there is room.
  void advance();
  void send_stripe(const std::shared_ptr<Letter>& letter);
  void tell(Endpoint& lane, Envelope envelope, Done done);

  const int self_;
  const std::uint64_t token_;
  std::optional<Lifeline> lifeline_;
  std::uint64_t their_token_ = 0;
  int greetings_due_ = 0;  // of the peer, one for each of its lanes; negative: some came before its hello
  int greetings_in_flight_ = 0;
  std::vector<std::unique_ptr<Endpoint>> lanes_;
  std::deque<std::shared_ptr<Letter>> letters_;  // not sent out whole
  std::size_t next_lane_ = 0;
  std::size_t stripes_in_flight_ = 0;
  bool advancing_ = false;
  int in_flight_ = 0;  // messages of any kind
  int parts_in_flight_ = 0;
  std::size_t bytes_in_flight_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace kith::comm::ucx

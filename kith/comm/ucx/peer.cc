#include "kith/comm/ucx/peer.h"

#include <algorithm>
#include <utility>

namespace kith::comm::ucx {
namespace {

// A stripe fits one segment (settings.cc) with its header. UCX could agree with the receiver on a long
// message first and then move it as a whole; but its answer would wait behind what flows the other way on the
// same connection, so that two workers that exchange models would take turns.
constexpr std::size_t kStripe = 192 << 10;
// On a lane; enough to keep its socket filled.
constexpr std::size_t kStripesInFlight = 4;
// Parts that may have begun; more would let later parts delay earlier ones.
constexpr std::size_t kBytesInFlight = 4 << 20;
constexpr int kPartsInFlight = 2;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}

}  // namespace

// A part on its way.
struct Peer::Letter {
  DataHeader header;
  std::span<const std::byte> payload;
  std::size_t begun = 0;      // bytes
  std::size_t under_way = 0;  // stripes
  bool complete = true;
  Done done;

  bool all_begun() const { return begun == payload.size(); }
};

void Peer::meet(Worker& worker, const Introduction& theirs, int lanes,
                const std::function<void(std::string_view)>& on_failure) {
  their_token_ = theirs.token;
  greetings_due_ += theirs.lanes;  // one may have come before its hello
  for (int i = 0; i < lanes; ++i) {
    lanes_.push_back(std::make_unique<Endpoint>(worker, theirs.address, on_failure));
    ++greetings_in_flight_;
    tell(*lanes_.back(), {.kind = Kind::greet}, [this](bool) { --greetings_in_flight_; });
  }
}

// No lane has a second.
void Peer::count_greeting() {
  if (greetings_due_ > (met() ? 0 : -kMostLanes)) --greetings_due_;
}

void Peer::tell(const Envelope& envelope) {
  if (met()) tell(*lanes_[0], envelope, [](bool) {});
}

void Peer::tell(Endpoint& lane, Envelope envelope, Done done) {
  envelope.token = their_token_;
  envelope.from = self_;
  const auto kept = std::make_shared<Envelope>(envelope);
  ++in_flight_;
  lane.send(bytes_of(*kept), {}, [this, kept, done = std::move(done)](bool complete) {
    --in_flight_;
    done(complete);
  });
}

void Peer::send(DataHeader header, std::span<const std::byte> payload, Done done) {
  if (!met()) return done(false);
  header.envelope.token = their_token_;
  header.envelope.from = self_;
  ++parts_in_flight_;
  bytes_in_flight_ += payload.size();
  const auto letter = std::make_shared<Letter>();
  letter->header = header;
  letter->payload = payload;
  letter->done = std::move(done);
  if (payload.empty()) return send_stripe(letter);
  letters_.push_back(letter);
  advance();
}

void Peer::advance() {
  if (advancing_) return;  // a stripe that is gone at once comes back here
  advancing_ = true;
  while (!letters_.empty() && stripes_in_flight_ < kStripesInFlight * lanes_.size()) {
    const std::shared_ptr<Letter> letter = letters_.front();
    send_stripe(letter);
    if (letter->all_begun() && !letters_.empty() && letters_.front() == letter) letters_.pop_front();
  }
  advancing_ = false;
}

void Peer::send_stripe(const std::shared_ptr<Letter>& letter) {
  const auto header = std::make_shared<DataHeader>(letter->header);
  header->stripe_offset = letter->begun;
  const auto stripe =
      letter->payload.subspan(letter->begun, std::min(kStripe, letter->payload.size() - letter->begun));
  letter->begun += stripe.size();
  ++letter->under_way;
  ++stripes_in_flight_;
  ++in_flight_;
  lanes_[next_lane_++ % lanes_.size()]->send(bytes_of(*header), stripe,
                                             [this, letter, header](bool complete) {
                                               --in_flight_;
                                               --stripes_in_flight_;
                                               --letter->under_way;
                                               sent_ += complete ? 1 : 0;
                                               letter->complete = letter->complete && complete;
                                               if (letter->all_begun() && letter->under_way == 0) {
                                                 --parts_in_flight_;
                                                 bytes_in_flight_ -= letter->payload.size();
                                                 letter->done(letter->complete);
                                               }
                                               advance();
                                             });
}

bool Peer::has_room() const {
  return parts_in_flight_ < kPartsInFlight || bytes_in_flight_ < kBytesInFlight;
}

void Peer::close() {
  for (const auto& lane : lanes_)
    lane->close();
}

bool Peer::closed() const {
  return in_flight_ == 0 &&
         std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->closed(); });
}

}  // namespace kith::comm::ucx

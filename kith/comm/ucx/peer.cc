#include "kith/comm/ucx/peer.h"

#include <algorithm>
#include <utility>

namespace kith::comm::ucx {
namespace {

// Up to here a payload fits one segment (settings.cc) and goes at once; a longer one is announced first, and
// received where it will lie.
constexpr std::size_t kSmall = 192 << 10;
// Below this a lane of its own is not worth it.
constexpr std::size_t kLeastStripe = 1 << 20;
// Enough to keep a link busy while the next part is being agreed on; more would let later parts delay earlier
// ones.
constexpr std::size_t kBytesInFlight = 4 << 20;
constexpr int kPartsInFlight = 2;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}

}  // namespace

// What must stay in memory until a part is gone.
struct Peer::Letter {
  std::vector<DataHeader> stripes;
  std::size_t left = 0;
  bool complete = true;
  Done done;
};

void Peer::meet(Worker& worker, const Introduction& theirs, int lanes,
                const std::function<void(std::string_view)>& on_failure) {
  their_token_ = theirs.token;
  greetings_due_ += 2 * theirs.lanes;  // one may have come before its hello
  for (int i = 0; i < 2 * lanes; ++i) {
    lanes_.push_back(std::make_unique<Endpoint>(worker, theirs.address, on_failure));
    ++greetings_in_flight_;
    tell(*lanes_.back(), {.kind = Kind::greet}, [this](bool) { --greetings_in_flight_; });
  }
}

void Peer::tell(const Envelope& envelope) {
  if (met()) tell(*lanes_[first_for_words()], envelope, [](bool) {});
}

void Peer::tell(Endpoint& lane, Envelope envelope, Done done) {
  envelope.token = their_token_;
  envelope.from = self_;
  const auto kept = std::make_shared<Envelope>(envelope);
  ++in_flight_;
  lane.send(bytes_of(*kept), {}, Endpoint::Size::small, [this, kept, done = std::move(done)](bool complete) {
    --in_flight_;
    done(complete);
  });
}

void Peer::send(DataHeader header, std::span<const std::byte> payload, Done done) {
  if (!met()) return done(false);
  header.envelope.token = their_token_;
  header.envelope.from = self_;
  const std::size_t stripes = std::clamp<std::size_t>(payload.size() / kLeastStripe, 1, lanes_each_way());
  const std::size_t length = ((payload.size() + stripes - 1) / stripes + 63) / 64 * 64;
  const auto size = payload.size() <= kSmall ? Endpoint::Size::small : Endpoint::Size::large;
  const auto letter = std::make_shared<Letter>();
  letter->stripes.assign(stripes, header);
  letter->left = stripes;
  letter->done = std::move(done);
  ++parts_in_flight_;
  bytes_in_flight_ += payload.size();
  for (std::size_t i = 0; i < stripes; ++i) {
    const std::size_t offset = std::min(i * length, payload.size());
    letter->stripes[i].stripe_offset = offset;
    const auto stripe = payload.subspan(offset, std::min(length, payload.size() - offset));
    ++in_flight_;
    lanes_[first_for_data() + i]->send(bytes_of(letter->stripes[i]), stripe, size,
                                       [this, letter, bytes = payload.size()](bool complete) {
                                         --in_flight_;
                                         sent_ += complete ? 1 : 0;
                                         letter->complete = letter->complete && complete;
                                         if (--letter->left > 0) return;
                                         --parts_in_flight_;
                                         bytes_in_flight_ -= bytes;
                                         letter->done(letter->complete);
                                       });
  }
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

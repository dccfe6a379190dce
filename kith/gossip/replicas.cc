#include "kith/gossip/replicas.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"

namespace kith::gossip {
namespace {

// What a message begins with.
struct Prefix {
  std::uint32_t whole = 0;   // the vector itself follows, not a difference
  std::uint32_t wanted = 0;  // 1 + the id of a worker whose whole vector the writer needs; 0: of nobody
  std::uint64_t digest = 0;  // of the writer's own replica afterwards, in debug builds; 0: not known
};

#ifdef NDEBUG
constexpr bool kChecks = false;
#else
constexpr bool kChecks = true;
#endif

// The host looks at its own memory only.
bool checks(const kernels::Device& device) {
  return kChecks && device.host();
}

constexpr std::size_t kAligned = 64;

template <class T>
std::uint64_t digest_of(const T* values, std::size_t count) {
  std::uint64_t digest = 0;
  for (std::size_t k = 0; k < count; ++k) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, values + k, sizeof(T));
    digest = mix_bits(digest ^ bits);
  }
  return digest;
}

}  // namespace

graph::WorkerRound whole_period(const graph::Schedule& schedule, Rank rank) {
  std::set<Rank> reads, readers;
  const auto others = static_cast<std::size_t>(schedule.workers() - 1);
  for (std::int64_t t = 0; t < schedule.period() && std::min(reads.size(), readers.size()) < others; ++t) {
    const graph::WorkerRound round = schedule.round(rank, t);
    for (const Rank other : graph::reads_of(round, rank))
      reads.insert(other);
    for (const Rank other : graph::readers_of(round, rank))
      readers.insert(other);
  }
  graph::WorkerRound all;
  all.form = graph::Form::neighbours;
  for (const Rank other : reads)
    all.reads.push_back({other, 0});
  all.readers.assign(readers.begin(), readers.end());
  return all;
}

template <class T>
Replicas<T>::Replicas(const Options& options)
    : options_(options),
      device_(options.device ? *options.device : kernels::host_device()),
      queue_(device_.compute()),
      codec_(kernels::make_codec<T>(options.codec)),
      kernels_(kernels::make_codec_kernels<T>(queue_, options.codec)),
      stride_(device_.host() ? options.count : (options.count + kAligned - 1) / kAligned * kAligned) {
  static_assert(sizeof(Prefix) == kPrefixBytes);
  const std::size_t vectors = (1 + options_.peers.size()) * stride_ * sizeof(T);
  const std::size_t message = options_.keeps_message ? largest_message() : 0;
  const bool host = device_.host();
  here_ = kernels::host_device().allocate(note_bytes() + (host ? vectors + message : 0));
  if (!host) there_ = device_.allocate(vectors + message);
  std::byte* const begin = host ? here_.data() + note_bytes() : there_.data();
  vectors_ = reinterpret_cast<T*>(begin);
  if (options_.keeps_message) message_ = begin + vectors;
  prefixes_ = device_.allocate_pinned(2 * sizeof(Prefix));
}

template <class T>
std::size_t Replicas<T>::largest_message() const {
  return sizeof(Prefix) + std::max(options_.count * sizeof(T), codec_->bytes(options_.count));
}

template <class T>
std::size_t Replicas<T>::index_of(WorkerId peer) const {
  const auto found = std::find(options_.peers.begin(), options_.peers.end(), peer);
  KITH_CHECK(found != options_.peers.end(), "a peer of the period");
  return static_cast<std::size_t>(found - options_.peers.begin());
}

template <class T>
std::uint64_t Replicas<T>::draw(WorkerId writer, std::uint64_t version) const {
  return hash_words(options_.seed, writer.value, version);
}

template <class T>
std::size_t Replicas<T>::write(const T* x, std::uint64_t version, std::span<std::byte> message) {
  Prefix prefix;
  prefix.whole = !restored() || head()->whole_next != 0 ? 1 : 0;
  for (std::size_t k = 0; k < options_.peers.size() && restored(); ++k) {
    if (peer_at(k)->known == 0) prefix.wanted = static_cast<std::uint32_t>(options_.peers[k].value + 1);
  }
  T* const own = vector(0);
  std::size_t body = options_.count * sizeof(T);
  std::byte* const to = message.data() + sizeof(Prefix);
  if (prefix.whole != 0) {
    queue_.copy(to, x, body);
    queue_.copy(own, x, body);
  } else {
    body = codec_->bytes(options_.count);
    kernels_->encode(x, own, options_.count, draw(options_.self, version), to);
  }
  if (checks(device_)) prefix.digest = digest_of(own, options_.count);
  std::byte* const pinned = prefixes_.data() + version % 2 * sizeof(Prefix);
  std::memcpy(pinned, &prefix, sizeof(Prefix));
  queue_.copy(message.data(), pinned, sizeof(Prefix));
  *head() = {1, sizeof(Prefix) + body, 0};
  if (message_) queue_.copy(message_, message.data(), head()->message_bytes);
  return head()->message_bytes;
}

template <class T>
std::size_t Replicas<T>::write_again(std::span<std::byte> message) {
  KITH_CHECK(message_ && restored(), "a message was kept");
  const std::size_t bytes = std::min<std::size_t>(head()->message_bytes, largest_message());
  queue_.copy(message.data(), message_, bytes);
  return bytes;
}

template <class T>
void Replicas<T>::take(WorkerId peer, std::uint64_t version, std::span<const std::byte> message,
                       const std::byte* begin) {
  const std::size_t index = index_of(peer);
  Prefix prefix;
  if (message.size() < sizeof(Prefix)) throw Error(cat("a message of ", message.size(), " bytes"), cat(peer));
  std::memcpy(&prefix, begin ? begin : message.data(), sizeof(Prefix));
  message = message.subspan(sizeof(Prefix));
  if (prefix.wanted == static_cast<std::uint32_t>(options_.self.value + 1)) head()->whole_next = 1;
  const std::size_t expected = prefix.whole != 0 ? options_.count * sizeof(T) : codec_->bytes(options_.count);
  if (message.size() != expected) {
    throw Error(cat("a message of ", message.size(), " bytes, expected ", expected), cat(peer),
                "all workers take the same codec");
  }
  T* const replica = vector(1 + index);
  if (prefix.whole != 0) {
    queue_.copy(replica, message.data(), message.size());
    peer_at(index)->known = 1;
  } else if (peer_at(index)->known != 0) {
    kernels_->add(message.data(), draw(peer, version), replica, options_.count);
  }
  if (checks(device_) && prefix.digest != 0 && peer_at(index)->known != 0)
    KITH_CHECK_EQ(digest_of(replica, options_.count), prefix.digest, "the replica of a peer is its own");
}

template <class T>
std::size_t Replicas<T>::state_bytes() const {
  return note_bytes() + (1 + options_.peers.size()) * vector_bytes() + (message_ ? largest_message() : 0);
}

template <class T>
void Replicas<T>::move_state(Direction direction, std::byte* state) {
  const bool saves = direction == Direction::save;
  const auto move = [&](void* place, std::size_t bytes) {
    queue_.copy_now(saves ? state : place, saves ? place : state, bytes);
    state += bytes;
  };
  std::memcpy(saves ? state : here_.data(), saves ? here_.data() : state, note_bytes());
  state += note_bytes();
  for (std::size_t k = 0; k <= options_.peers.size(); ++k)
    move(vector(k), vector_bytes());
  if (message_) move(message_, largest_message());
}

template <class T>
std::span<std::byte> Replicas<T>::state() {
  if (device_.host()) return {here_.data(), state_bytes()};
  if (!taken_ && !saved_.empty()) return saved_;
  saved_.resize(state_bytes());
  move_state(Direction::save, saved_.data());
  return saved_;
}

template <class T>
void Replicas<T>::take_state() {
  if (!saved_.empty()) move_state(Direction::restore, saved_.data());
  saved_ = {};
  taken_ = true;
}

template <class T>
void Replicas<T>::miss(WorkerId peer) {
  std::uint64_t& known = peer_at(index_of(peer))->known;
  if (known != 0) ++resyncs_;
  known = 0;
}

template <class T>
bool Replicas<T>::knows(WorkerId peer) const {
  return peer_at(index_of(peer))->known != 0;
}

template class Replicas<float>;
template class Replicas<double>;

}  // namespace kith::gossip

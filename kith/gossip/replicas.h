#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kith/base/ids.h"
#include "kith/graph/schedule.h"
#include "kith/kernels/codec.h"
#include "kith/kernels/device.h"

namespace kith::gossip {

// Note [Differences]
//
// A codec's error goes with what it encodes, so that a model sent through one would never be known exactly.
// What everybody knows of worker j is therefore a replica, x^_j: j itself holds it, and so does everybody who
// ever reads j. A message is the encoded difference q_j = Q(x_j - x^_j), and all holders do the same x^_j +=
// q_j. As models come to rest, differences and with them the errors go to zero.
//
// All holders must see every difference. So in a schedule that changes, a message goes to everybody who reads
// this worker in any round of the period, not only in this one; a round then mixes the replicas that it
// names. A holder that misses a message (its sender was late) no longer knows the replica. It does without
// that neighbour, asks for it with its next message, and the sender's next one is whole: x itself, which
// becomes the replica everywhere. The first message of a life is whole too, unless the state was restored.

// Everybody that `rank` reads or is read by in some round of the schedule: `reads` with weight 0, `readers`.
graph::WorkerRound whole_period(const graph::Schedule& schedule, Rank rank);

// The replicas that one worker holds of one vector: its own, and those of the workers it reads. They lie in
// the memory of a device, as do the vectors and messages that are named here; the work goes to its compute
// queue, and calls may return before it is done.
template <class T>
class Replicas {
 public:
  struct Options {
    std::string codec;  // kith/kernels/codec.h
    std::size_t count = 0;
    std::uint64_t seed = 0;  // of what is drawn, the same at all workers
    WorkerId self;
    std::vector<WorkerId> peers;        // who is read
    bool keeps_message = false;         // messages are read after state() is saved
    kernels::Device* device = nullptr;  // null: the host
  };

  explicit Replicas(const Options& options);

  std::size_t largest_message() const;
  const kernels::Codec<T>& codec() const { return *codec_; }

  // Writes the message of this version, and follows it. Returns its size. REQUIRES: a message is aligned to
  // 16 bytes, and of the versions before the last one nothing is under way.
  std::size_t write(const T* x, std::uint64_t version, std::span<std::byte> message);
  // The message that was written last, once more; for versions that were written before state() was saved.
  std::size_t write_again(std::span<std::byte> message);
  // False when there was none: the state is new.
  bool restored() const { return head()->valid != 0; }

  // What a message begins with, which the host must know.
  static constexpr std::size_t kPrefixBytes = 16;
  // Follows a peer's message. `prefix` is how it begins, in host memory; null: it lies there itself. The
  // message must stay until the work is done.
  void take(WorkerId peer, std::uint64_t version, std::span<const std::byte> message,
            const std::byte* prefix = nullptr);
  // The peer's message of a version did not come.
  void miss(WorkerId peer);
  // Whether the peer's replica is known.
  bool knows(WorkerId peer) const;
  // Whole messages asked for, by this worker.
  std::uint64_t resyncs() const { return resyncs_; }

  const T* own() const { return vector(0); }
  const T* of(WorkerId peer) const { return vector(1 + index_of(peer)); }

  // All of it, in host memory, to be saved or, before take_state(), restored (until then it is the same
  // memory again, as it was filled); zeros are the state before the first message. The same bytes whatever
  // the device.
  std::span<std::byte> state();
  // What state() gave out may have been filled since.
  void take_state();
  std::size_t state_bytes() const;

 private:
  struct Head {
    std::uint64_t valid;          // a message was written
    std::uint64_t message_bytes;  // of the last one
    std::uint64_t whole_next;     // a peer asked for a whole one
  };
  struct Peer {
    std::uint64_t known;
  };

  Head* head() const { return reinterpret_cast<Head*>(here_.data()); }
  Peer* peer_at(std::size_t index) const { return reinterpret_cast<Peer*>(head() + 1) + index; }
  T* vector(std::size_t index) const { return vectors_ + index * stride_; }
  std::size_t index_of(WorkerId peer) const;
  std::uint64_t draw(WorkerId writer, std::uint64_t version) const;
  std::size_t note_bytes() const { return sizeof(Head) + options_.peers.size() * sizeof(Peer); }
  std::size_t vector_bytes() const { return options_.count * sizeof(T); }
  // Between the device and `state`, which is laid out as: head, peers, own replica, peers' replicas, the last
  // message.
  enum class Direction : std::uint8_t { save, restore };
  void move_state(Direction direction, std::byte* state);

  const Options options_;
  kernels::Device& device_;
  kernels::Queue& queue_;
  const std::unique_ptr<kernels::Codec<T>> codec_;
  const std::unique_ptr<kernels::CodecKernels<T>> kernels_;
  const std::size_t stride_;  // elements from one vector to the next
  kernels::Buffer here_;   // in host memory: head and peers; where the device is the host, all of the state
  kernels::Buffer there_;  // on another device: replicas, each well aligned, and the last message
  T* vectors_ = nullptr;   // own replica, peers' replicas
  std::byte* message_ = nullptr;  // the last one; null unless it is kept
  kernels::Buffer prefixes_;      // pinned: of the last two messages
  std::vector<std::byte> saved_;  // what state() gave out, of another device than the host
  bool taken_ = false;            // take_state() was called
  std::uint64_t resyncs_ = 0;
};

}  // namespace kith::gossip

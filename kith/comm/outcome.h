#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>

#include "kith/base/clock.h"
#include "kith/base/ids.h"

namespace kith::comm {

// What a reader learns about a version before it looks at the bytes.
struct Header {
  Version version;
  std::uint64_t bytes = 0;         // of the payload this reader gets, at most the window's capacity
  std::uint64_t offset = 0;        // where that part begins in the whole payload
  std::uint32_t codec = 0;         // how the payload is encoded; 0 is plain
  double weight = 1;               // push-sum weight, travels along
  Clock::Time published{};         // by the publisher's clock, where it told when (PublishOptions::time)
  std::uint64_t shape_digest = 0;  // of what is published; equal on both sides, checked at open
};

// A version that lies in a peer's window (or in a staging slot),
// read-only, until it is released. Releases itself when destroyed; the
// bytes must not be looked at afterwards. Move-only, one thread at a time.
class Arrival {
 public:
  // Implemented by the backends: tells the writer that this reader is past the version.
  class Releaser {
   public:
    virtual void release(WorkerId peer, Version version) = 0;

   protected:
    ~Releaser() = default;
  };

  Arrival(Releaser* releaser, WorkerId peer, const Header& header, std::span<const std::byte> data)
      : releaser_(releaser), peer_(peer), header_(header), data_(data) {}
  Arrival(Arrival&& other) noexcept
      : releaser_(std::exchange(other.releaser_, nullptr)),
        peer_(other.peer_),
        header_(other.header_),
        data_(std::exchange(other.data_, {})) {}
  Arrival& operator=(Arrival&& other) noexcept {
    if (this != &other) {
      release();
      releaser_ = std::exchange(other.releaser_, nullptr);
      peer_ = other.peer_;
      header_ = other.header_;
      data_ = std::exchange(other.data_, {});
    }
    return *this;
  }
  ~Arrival() { release(); }

  WorkerId peer() const { return peer_; }
  const Header& header() const { return header_; }
  std::span<const std::byte> data() const { return data_; }

  void release() {
    if (Releaser* releaser = std::exchange(releaser_, nullptr)) releaser->release(peer_, header_.version);
    data_ = {};
  }

 private:
  Releaser* releaser_;
  WorkerId peer_;
  Header header_;
  std::span<const std::byte> data_;
};

// The deadline passed first, or the wait was cancelled. The reader has given up on the
// version: it is past it, so the writer is not held up.
struct Late {
  WorkerId peer;
  Version version;
  Clock::Duration waited{};
};

// The peer is gone (died, or closed its transport) and will not publish again.
struct Lost {
  WorkerId peer;
};

// Waiting for a neighbour ends in exactly one of three ways, all of them ordinary.
using Outcome = std::variant<Arrival, Late, Lost>;

}  // namespace kith::comm

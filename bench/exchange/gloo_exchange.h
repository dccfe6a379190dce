#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gloo {
class Context;
}

namespace kith::bench {

// Neighbour exchange as it is done on Gloo, the transport under PyTorch's DDP on CPUs: send the vector to the
// neighbour over TCP on the loopback interface, receive theirs into a second buffer.
class GlooExchange {
 public:
  // Connects all ranks through files in `folder`.
  GlooExchange(int rank, int size, const std::string& folder);
  ~GlooExchange();

  // Afterwards `theirs` holds the peer's `mine`.
  void swap(int peer, std::span<float> mine, std::span<float> theirs);

 private:
  std::shared_ptr<gloo::Context> context_;
  unsigned long slot_ = 0;
};

}  // namespace kith::bench

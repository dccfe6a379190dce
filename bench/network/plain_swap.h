#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kith/comm/net/connection.h"
#include "kith/comm/store.h"

namespace kith::bench {

// The yardstick: two workers that swap vectors over one TCP connection with nothing but send, recv and poll.
class PlainSwap {
 public:
  PlainSwap(int rank, const std::string& interface, comm::Store& store);
  void swap(std::span<const std::byte> mine, std::span<std::byte> theirs);

 private:
  comm::shm::Descriptor socket_;
};

}  // namespace kith::bench

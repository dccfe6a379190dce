#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kith/base/clock.h"
#include "kith/comm/net/connection.h"

namespace kith::comm::ucx {

// Note [Lifeline]
//
// Two workers on different machines keep one authenticated TCP connection besides UCX's own. On it they meet,
// announce windows, and say goodbye; and it tells whether the other's machine is there. A process that ends
// closes it, and that is seen at once. A cable that is pulled, or a machine that loses power, closes nothing:
// so every kBeat a byte is sent, and the kernel is asked what the peer's kernel acknowledged. A stopped or
// swapping process is not lost, since its kernel still acknowledges. A machine is lost when it has left
// something unacknowledged for `bound()`: eight times the longest acknowledgement seen in the last minute, at
// least 1 s, at most 30 s.
class Lifeline {
 public:
  static constexpr Clock::Duration kBeat = std::chrono::milliseconds(200);

  explicit Lifeline(net::Connection connection) : connection_(std::move(connection)) {}

  net::Connection& connection() { return connection_; }

  // To be called every kBeat. Sends a beat unless one is still on its way, and looks at the acknowledgements.
  void beat(Clock::Time now, std::string_view message);
  // How long the peer's machine has left something unacknowledged.
  Clock::Duration silence() const { return silence_; }
  Clock::Duration bound() const;

 private:
  void observe(Clock::Time now, Clock::Duration delay);

  net::Connection connection_;
  std::optional<Clock::Time> waiting_since_;
  Clock::Duration silence_{};
  Clock::Duration longest_{}, longest_before_{};  // of this half minute and the one before
  Clock::Time half_minute_{};
};

}  // namespace kith::comm::ucx

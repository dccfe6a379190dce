#include "kith/comm/ucx/lifeline.h"

#include <algorithm>

// Not <netinet/tcp.h>: the C library's tcp_info lacks tcpi_notsent_bytes.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace kith::comm::ucx {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Clock::Duration kLeastBound = seconds(1);
constexpr Clock::Duration kMostBound = seconds(30);
constexpr int kTolerance = 8;

}  // namespace

void Lifeline::beat(Clock::Time now, std::string_view message) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(connection_.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  const bool waiting = info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0 || connection_.has_unsent();
  if (!waiting) {
    observe(now, waiting_since_ ? now - *waiting_since_ : Clock::Duration(microseconds(info.tcpi_rtt)));
    waiting_since_.reset();
    silence_ = {};
    connection_.queue(message);
    return;
  }
  if (!waiting_since_) waiting_since_ = now - kBeat;  // the beat that is on its way was sent then
  silence_ = std::min<Clock::Duration>(now - *waiting_since_, milliseconds(info.tcpi_last_ack_recv));
}

void Lifeline::observe(Clock::Time now, Clock::Duration delay) {
  if (now - half_minute_ > seconds(30)) {
    longest_before_ = longest_;
    longest_ = {};
    half_minute_ = now;
  }
  longest_ = std::max(longest_, delay);
}

Clock::Duration Lifeline::bound() const {
  return std::clamp<Clock::Duration>(kTolerance * std::max(longest_, longest_before_), kLeastBound,
                                     kMostBound);
}

}  // namespace kith::comm::ucx

#include "kith/comm/mapped/wait_note.h"

#include <algorithm>
#include <cstdio>

#include "kith/base/text.h"

namespace kith::comm::mapped {
namespace {

constexpr Clock::Duration kLookStep = std::chrono::milliseconds(5);
constexpr int kOpeningWaits = 5;  // workers begin at different times, and that is nothing to tell of

}  // namespace

Clock::Duration WaitNote::patience() const {
  return version_ ? context_.long_wait() : kOpeningWaits * context_.long_wait();
}

Deadline WaitNote::wake_by(Deadline deadline) const {
  return said_ ? deadline : std::min(deadline, start_ + patience());
}

Deadline WaitNote::look_by(Deadline deadline) const {
  return std::min(wake_by(deadline), SteadyClock().now() + kLookStep);
}

void WaitNote::explain(std::string_view what, int peer) {
  const Clock::Duration so_far = waited();
  if (said_ || so_far < patience()) return;
  said_ = true;
  char time[32];
  std::snprintf(time, sizeof time, "%.1f s", seconds(so_far));
  const std::string version = version_ ? cat("version ", *version_) : "being opened";
  context_.log().write(context_.may_warn() ? LogLevel::warning : LogLevel::info,
                       cat(context_.self(), " ", what, " ", context_.worker(peer), ", window ", window_, ", ",
                           version, ", ", time));
}

}  // namespace kith::comm::mapped

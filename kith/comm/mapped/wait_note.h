#pragma once

#include <optional>
#include <string>

#include "kith/comm/mapped/context.h"

namespace kith::comm::mapped {

// How long the opening of a window goes on when one of its peers that has opened it is lost, for the sake of
// those who are still to come; some of them may have given it up because of the loss.
inline constexpr Clock::Duration kMourning = std::chrono::seconds(1);

// Times one wait, and says once in the log who waits for whom when it gets long: as a warning, or where this
// worker has warned of a wait not long ago as information.
class WaitNote {
 public:
  // `version` is absent while the window is being opened. REQUIRES: `window` outlives the note.
  WaitNote(Context& context, const std::string& window, std::optional<Version> version = {})
      : context_(context), window_(window), version_(version) {}

  Clock::Duration waited() const { return SteadyClock().now() - start_; }
  // Until when to sleep: the deadline, or when the wait becomes worth a line.
  Deadline wake_by(Deadline deadline) const;
  // While a window is being opened: the same, or when to ask again whether that was cancelled.
  Deadline look_by(Deadline deadline) const;
  // Writes the line if it is time to; `what` says what the worker waits for ("waits for", "is held up by").
  void explain(std::string_view what, int peer);

 private:
  // How long a wait may be before it explains itself.
  Clock::Duration patience() const;

  Context& context_;
  const std::string& window_;
  const std::optional<Version> version_;
  const Clock::Time start_ = SteadyClock().now();
  bool said_ = false;
};

}  // namespace kith::comm::mapped

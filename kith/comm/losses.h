#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

#include "kith/base/ids.h"

namespace kith::comm {

// News of workers that have ended, for transports, which cannot know of those they have not met yet. Safe
// from any thread. Owned by a shared_ptr.
class Losses : public std::enable_shared_from_this<Losses> {
 public:
  using Listener = std::function<void(WorkerId worker)>;

  // One that can be done without is no reason to end waits for everybody.
  enum class Needed { yes, no };
  void tell(WorkerId worker, Needed needed = Needed::yes) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(lost_, worker) != lost_.end()) return;
    lost_.push_back(worker);
    if (needed == Needed::yes) stop_.request_stop();
    for (const auto& [number, listener] : listeners_)
      listener(worker);
  }

  // The listener is told of each, also of those that are known already, until the result is destroyed. It
  // must not call back.
  [[nodiscard]] std::shared_ptr<const void> listen(Listener listener) {
    const std::lock_guard lock(mutex_);
    for (const WorkerId worker : lost_)
      listener(worker);
    listeners_.emplace(++numbers_, std::move(listener));
    return {this, [self = shared_from_this(), number = numbers_](const void*) { self->forget(number); }};
  }

  // Requested when the first that is needed is told: for waits that make no sense without everybody.
  std::stop_token any() const { return stop_.get_token(); }

 private:
  void forget(int number) {
    const std::lock_guard lock(mutex_);
    listeners_.erase(number);
  }

  std::mutex mutex_;  // guards what follows; held while listeners are told
  std::vector<WorkerId> lost_;
  std::map<int, Listener> listeners_;
  int numbers_ = 0;
  std::stop_source stop_;
};

}  // namespace kith::comm

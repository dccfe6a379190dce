#include "python/src/waits.h"

#include <utility>

namespace kith::python {

void Waits::remember(const std::shared_ptr<comm::Cancellation>& owner) {
  bool too_late = false;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(owners_, [&](const auto& known) {
      const auto alive = known.lock();
      return !alive || alive == owner;
    });
    owners_.push_back(owner);
    too_late = cancelled_;
  }
  if (too_late) owner->cancel();
}

void Waits::cancel() {
  std::vector<std::weak_ptr<comm::Cancellation>> owners;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    owners = std::move(owners_);
    owners_.clear();
  }
  for (const auto& owner : owners)
    if (const auto alive = owner.lock()) alive->cancel();
}

}  // namespace kith::python

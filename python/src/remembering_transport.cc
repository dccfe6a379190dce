#include "python/src/remembering_transport.h"

#include <utility>

namespace kith::python {

void RememberingTransport::cancel() {
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

std::unique_ptr<comm::Window> RememberingTransport::open(const comm::WindowOptions& options,
                                                         Deadline deadline) {
  bool too_late = false;
  if (options.cancellation) {
    const std::lock_guard lock(mutex_);
    std::erase_if(owners_, [&](const auto& owner) {
      const auto alive = owner.lock();
      return !alive || alive == options.cancellation;
    });
    owners_.push_back(options.cancellation);
    too_late = cancelled_;
  }
  if (too_late) options.cancellation->cancel();
  return inner_.open(options, deadline);
}

}  // namespace kith::python

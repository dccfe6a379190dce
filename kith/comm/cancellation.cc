#include "kith/comm/cancellation.h"

namespace kith::comm {

void Cancellation::cancel() {
  if (cancelled_.exchange(true)) return;
  std::lock_guard lock(mutex_);
  for (Listener* listener : listeners_)
    listener->on_cancel();
}

void Cancellation::add(Listener* listener) {
  std::lock_guard lock(mutex_);
  listeners_.push_back(listener);
}

void Cancellation::remove(Listener* listener) {
  std::lock_guard lock(mutex_);
  std::erase(listeners_, listener);
}

}  // namespace kith::comm

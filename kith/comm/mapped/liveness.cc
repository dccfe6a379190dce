#include "kith/comm/mapped/liveness.h"

namespace kith::comm::mapped {

bool Liveness::mark_lost(int worker) {
  if (lost_[static_cast<std::size_t>(worker)].exchange(true)) return false;
  std::lock_guard lock(mutex_);
  for (Listener* listener : listeners_)
    listener->on_lost(worker);
  return true;
}

void Liveness::add(Listener* listener) {
  std::lock_guard lock(mutex_);
  listeners_.push_back(listener);
}

void Liveness::remove(Listener* listener) {
  std::lock_guard lock(mutex_);
  std::erase(listeners_, listener);
}

}  // namespace kith::comm::mapped

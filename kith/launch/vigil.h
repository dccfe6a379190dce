#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "kith/base/ids.h"
#include "kith/comm/losses.h"
#include "kith/comm/will_store.h"

namespace kith::launch {

// Workers that join watch over each other until their transports do: each leaves word in the store that it
// has ended, to be found when it dies or fails, and hears of the first that has.
class Vigil {
 public:
  // Begins. The store outlives it.
  Vigil(comm::WillStore& store, WorkerId self);
  // Ends it. The others hear of it unless this worker leaves in peace.
  ~Vigil();
  Vigil(const Vigil&) = delete;
  Vigil& operator=(const Vigil&) = delete;

  // From now on nobody hears of an end in order.
  void leave_in_peace() { in_peace_ = true; }

  const std::shared_ptr<comm::Losses>& losses() const { return losses_; }
  // The first worker that has ended.
  std::optional<WorkerId> ended();

 private:
  void watch(const std::stop_token& stop);

  comm::WillStore& store_;
  const std::shared_ptr<comm::Losses> losses_ = std::make_shared<comm::Losses>();
  bool in_peace_ = false;
  std::mutex mutex_;  // guards ended_
  std::optional<WorkerId> ended_;
  std::jthread watcher_;
};

}  // namespace kith::launch

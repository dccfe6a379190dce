#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "kith/base/ids.h"
#include "kith/comm/losses.h"
#include "kith/comm/will_store.h"

namespace kith::launch {

// Workers watch over each other by way of the store, above all while their transports cannot yet: each leaves
// word that it has ended, to be found when it dies or fails, and hears of those that have.
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
  // From now on nobody who still joins needs this worker: its death is a loss to them, and no reason to end.
  void become_dispensable();

  // Who has ended.
  const std::shared_ptr<comm::Losses>& losses() const { return losses_; }
  // The first worker that was needed and has ended.
  std::optional<WorkerId> ended();

 private:
  void watch(const std::stop_token& stop);
  void hear(const std::string& word);

  comm::WillStore& store_;
  const WorkerId self_;
  const std::shared_ptr<comm::Losses> losses_ = std::make_shared<comm::Losses>();
  bool in_peace_ = false;
  std::mutex mutex_;  // guards ended_
  std::optional<WorkerId> ended_;
  std::jthread watcher_;
};

}  // namespace kith::launch

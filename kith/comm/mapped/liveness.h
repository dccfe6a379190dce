#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "kith/comm/protocol/writer.h"

namespace kith::comm::mapped {

// Who is lost, as one transport knows it. Backends mark, windows ask and are told. Safe from any thread.
class Liveness final : public protocol::LostWorkers {
 public:
  class Listener {
   public:
    // Wakes whoever waits for that worker. Called once per lost worker, after lost() has become true.
    virtual void on_lost(int worker) = 0;

   protected:
    ~Listener() = default;
  };

  explicit Liveness(std::size_t workers) : lost_(workers) {}

  bool lost(int worker) const override { return lost_[static_cast<std::size_t>(worker)].load(); }
  // False when it was known already.
  bool mark_lost(int worker);

  // A listener added too late to be told finds lost() true. remove returns when no call into it is under way.
  void add(Listener* listener);
  void remove(Listener* listener);

 private:
  std::vector<std::atomic<bool>> lost_;
  std::mutex mutex_;  // guards listeners_; held while they are told
  std::vector<Listener*> listeners_;
};

}  // namespace kith::comm::mapped

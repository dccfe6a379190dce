#pragma once

#include <atomic>
#include <mutex>
#include <vector>

namespace kith::comm {

// Ends waits before their deadlines, all those of one owner together. A window that was opened with one
// (WindowOptions::cancellation) waits no more once it is cancelled: what is there already arrives, and every
// other wait, under way or yet to come, ends as if its deadline had passed. Opening such a window ends in an
// Error. Publishing and releasing go on as before, so that nobody else is held up. Safe from any thread.
class Cancellation {
 public:
  class Listener {
   public:
    // Wakes whoever waits. Called once, after cancelled() has become true.
    virtual void on_cancel() = 0;

   protected:
    ~Listener() = default;
  };

  // For good.
  void cancel();
  bool cancelled() const { return cancelled_.load(); }

  // A listener added too late to be told finds cancelled() true. remove returns when no call into it is under
  // way.
  void add(Listener* listener);
  void remove(Listener* listener);

 private:
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;  // guards listeners_; held while they are told
  std::vector<Listener*> listeners_;
};

}  // namespace kith::comm

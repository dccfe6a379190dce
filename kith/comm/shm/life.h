#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include <linux/futex.h>

#include "kith/base/clock.h"
#include "kith/comm/shm/segment.h"
#include "kith/comm/shm/word_thread.h"

namespace kith::comm::shm {

// Note [Life]
//
// A pidfd or a socket tells of a killed peer only after its memory has been torn down, which takes
// long for a worker that holds gigabytes. A robust futex is let go first of all. So every worker
// has one life thread; it owns, in a segment that peers map read-only, one word for each peer, and
// lists all of them as its robust futexes. When the thread ends, for whatever reason (the
// transport was closed, the process was killed), the kernel marks every word with FUTEX_OWNER_DIED
// and wakes the peer that sleeps on it. The same thread sleeps on the words of all its peers. One
// word per (owner, watcher), because the kernel wakes a single sleeper of a word. Where the kernel
// cannot sleep on several words, a thread per peer does, and wakes the life thread.
class Life {
 public:
  // How the words of the peers are slept on.
  //   one_call         all in one call (futex_waitv, Linux 5.16)
  //   thread_per_peer  each by a thread of its own: anywhere
  enum class Watching { one_call, thread_per_peer };
  // The first, where this kernel has it and `plain` does not rule it out.
  static Watching watching(bool plain);

  // Told from the life thread, once per lost peer. `died` is
  // false when the peer closed its transport in order.
  using OnLost = std::function<void(int worker, bool died)>;

  // Starts the thread; from here on peers that map the segment see this worker alive.
  // Error when the kernel lacks what it needs.
  Life(int workers, OnLost on_lost, Watching how = watching(false));
  // Ends it: this worker is lost to its peers.
  ~Life();
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  // What peers pass to watch(). Read-only for them.
  const Descriptor& descriptor() const { return own_.descriptor(); }

  // Watches the peer whose life segment this is. `self` is this worker's index, `place` for errors.
  void watch(int peer, const Descriptor& life, int self, const std::string& place);
  // Whether it watches that peer, so that `on_lost` tells of its end. Safe from any thread.
  bool watches(int peer) const;

  // Empty where this kernel can do all that is needed, else what is missing.
  static std::string obstacle();

 private:
  struct Head {
    std::atomic<std::uint32_t> closing{0};  // set before an orderly end
  };
  struct alignas(64) Cell {
    robust_list link;  // meaningful to the owner only
    std::atomic<std::uint32_t> word{0};
  };
  struct Watched {
    Segment segment;
    const Head* head;
    const std::atomic<std::uint32_t>* word;
    std::unique_ptr<WordThread> sleeper;  // thread_per_peer
  };

  static std::size_t segment_bytes(int workers);
  static Head& head_of(const Segment& segment);
  static Cell* cells_of(const Segment& segment);
  // `enlisted` gets 0 or an errno once the words are registered.
  void run(std::promise<int> enlisted);
  void enlist();
  // Sleeps until a watched word changes (or its sleeper says so), `nudge_` changes, or a while has passed.
  void sleep_on(const std::vector<const std::atomic<std::uint32_t>*>& alive, std::uint32_t nudge);
  void nudge();

  const int workers_;
  const OnLost on_lost_;
  const Watching watching_;
  const Segment own_;
  robust_list_head list_{};              // of the life thread; read by the kernel when that thread ends
  std::atomic<std::uint32_t> nudge_{0};  // bumped when there is somebody new to watch, or to stop
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;  // guards watched_
  std::map<int, Watched> watched_;
  std::thread thread_;
};

}  // namespace kith::comm::shm

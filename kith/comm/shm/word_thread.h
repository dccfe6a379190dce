#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace kith::comm::shm {

// For threads that only listen: they take no signals, and short turns on the processor.
void keep_to_the_background();

// Sleeps on one word of shared memory in a thread of its own, for kernels that cannot sleep on several words.
// The word may be mapped read-only.
class WordThread {
 public:
  // Calls `then` once, from the thread, as soon as `done` holds for the word; not when it is destroyed first.
  // The word is waited for as a futex. It outlives this.
  WordThread(const std::atomic<std::uint32_t>& word, bool (*done)(std::uint32_t), std::function<void()> then);
  // Ends the thread, at once.
  ~WordThread();
  WordThread(const WordThread&) = delete;
  WordThread& operator=(const WordThread&) = delete;

 private:
  void run(bool (*done)(std::uint32_t), const std::function<void()>& then);

  const std::atomic<std::uint32_t>& word_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> ended_{0};
  std::thread thread_;
};

}  // namespace kith::comm::shm

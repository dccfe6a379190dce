#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kith::kernels {

// The caller and threads - 1 helpers that sleep between calls.
class ThreadPool {
 public:
  // REQUIRES: threads >= 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t threads() const { return helpers_.size() + 1; }

  // Calls task(0) .. task(threads() - 1), each on its own thread and task(0) on the caller's, and returns
  // when all have. One caller at a time. REQUIRES: `task` does not throw.
  void run(const std::function<void(std::size_t)>& task);

 private:
  void help(std::size_t index);

  std::mutex mutex_;
  std::condition_variable begin_;
  std::condition_variable done_;
  const std::function<void(std::size_t)>* task_ = nullptr;  // guarded by mutex_
  std::size_t generation_ = 0;                              // guarded by mutex_; a change starts the helpers
  std::size_t running_ = 0;                                 // guarded by mutex_
  bool stop_ = false;                                       // guarded by mutex_
  std::vector<std::thread> helpers_;                        // constant after construction
};

}  // namespace kith::kernels

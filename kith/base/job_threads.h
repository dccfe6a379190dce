#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kith {

// Threads that take jobs in the order they were given, so that communication goes on while the model
// computes. With one thread a job begins when the one before it has ended.
class JobThreads {
 public:
  explicit JobThreads(int threads = 1);
  // Finishes the jobs in progress and drops the rest. Whoever gives jobs that wait for others ends their
  // waits first (comm::Cancellation).
  ~JobThreads();
  JobThreads(const JobThreads&) = delete;
  JobThreads& operator=(const JobThreads&) = delete;

  void submit(std::function<void()> job);
  // Returns when every job given so far is done; rethrows the first exception of a job.
  void drain();

 private:
  void run();

  std::mutex mutex_;
  // Guarded by mutex_:
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::size_t pending_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;

  std::vector<std::jthread> threads_;
};

}  // namespace kith

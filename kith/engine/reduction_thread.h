#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace kith::engine {

// One thread that runs jobs in the order they were given, so that communication goes on while the model
// computes.
class ReductionThread {
 public:
  ReductionThread();
  // Finishes the job in progress and drops the rest.
  ~ReductionThread();
  ReductionThread(const ReductionThread&) = delete;
  ReductionThread& operator=(const ReductionThread&) = delete;

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

  std::thread thread_;
};

}  // namespace kith::engine

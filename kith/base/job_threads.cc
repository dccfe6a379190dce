#include "kith/base/job_threads.h"

#include <utility>

namespace kith {

JobThreads::JobThreads(int threads) {
  for (int i = 0; i < threads; ++i)
    threads_.emplace_back([this] { run(); });
}

JobThreads::~JobThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  threads_.clear();
}

void JobThreads::submit(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    ++pending_;
  }
  changed_.notify_all();
}

void JobThreads::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pending_ == 0; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void JobThreads::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    const bool skip = failure_ != nullptr;
    lock.unlock();
    std::exception_ptr failure;
    if (!skip) {
      try {
        job();
      } catch (...) {
        failure = std::current_exception();
      }
    }
    lock.lock();
    if (failure && !failure_) failure_ = failure;
    --pending_;
    changed_.notify_all();
  }
}

}  // namespace kith

#include "kith/engine/reduction_thread.h"

#include <utility>

namespace kith::engine {

ReductionThread::ReductionThread() : thread_([this] { run(); }) {}

ReductionThread::~ReductionThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReductionThread::submit(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    ++pending_;
  }
  changed_.notify_all();
}

void ReductionThread::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pending_ == 0; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ReductionThread::run() {
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

}  // namespace kith::engine

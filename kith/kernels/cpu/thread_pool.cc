#include "kith/kernels/cpu/thread_pool.h"

#include "kith/base/check.h"

namespace kith::kernels {

ThreadPool::ThreadPool(int threads) {
  KITH_CHECK_GE(threads, 1, "a pool has at least its caller");
  helpers_.reserve(static_cast<std::size_t>(threads) - 1);
  for (std::size_t i = 1; i < static_cast<std::size_t>(threads); ++i) {
    helpers_.emplace_back([this, i] { help(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begin_.notify_all();
  for (std::thread& helper : helpers_)
    helper.join();
}

void ThreadPool::run(const std::function<void(std::size_t)>& task) {
  if (helpers_.empty()) return task(0);
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    running_ = helpers_.size();
    ++generation_;
  }
  begin_.notify_all();
  task(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
}

void ThreadPool::help(std::size_t index) {
  std::size_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    begin_.wait(lock, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    const auto& task = *task_;
    lock.unlock();
    task(index);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace kith::kernels

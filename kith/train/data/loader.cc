#include "kith/train/data/loader.h"

#include <utility>

#include <c10/core/DeviceGuard.h>

#include "kith/base/check.h"

namespace kith::train {

Loader::Loader(const Dataset& dataset, Sampler sampler, const LoaderOptions& options)
    : dataset_(dataset),
      options_(options),
      epoch_(sampler.epoch()),
      position_(sampler.position()),
      sampler_(std::move(sampler)) {
  KITH_CHECK(options.ahead > 0, "a loader makes at least one batch ahead");
  thread_ = std::thread([this] { run(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Loader::Made Loader::make() {
  Made made;
  try {
    const std::uint64_t epoch = sampler_.epoch();
    made.batch = dataset_.train(sampler_.next(), epoch);
    if (!options_.device.is_cpu()) {
      made.batch.input = made.batch.input.pin_memory();
      made.batch.target = made.batch.target.pin_memory();
    }
  } catch (...) {
    made.failure = std::current_exception();
  }
  made.epoch_after = sampler_.epoch();
  made.position_after = sampler_.position();
  return made;
}

void Loader::run() {
  // Pinned memory belongs to the GPU that is current on this thread.
  const c10::DeviceGuard guard(options_.device);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock,
                  [this] { return stopping_ || made_.size() < static_cast<std::size_t>(options_.ahead); });
    if (stopping_) return;
    lock.unlock();
    Made made = make();
    const bool last = made.failure != nullptr;
    lock.lock();
    made_.push_back(std::move(made));
    changed_.notify_all();
    if (last) return;
  }
}

Batch Loader::next() {
  Made made;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !made_.empty(); });
    if (made_.front().failure) std::rethrow_exception(made_.front().failure);
    made = std::move(made_.front());
    made_.pop_front();
  }
  changed_.notify_all();
  epoch_ = made.epoch_after;
  position_ = std::move(made.position_after);
  return {made.batch.input.to(options_.device, /*non_blocking=*/true),
          made.batch.target.to(options_.device, /*non_blocking=*/true)};
}

}  // namespace kith::train

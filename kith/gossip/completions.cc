#include "kith/gossip/completions.h"

#include <utility>

namespace kith::gossip {

Completions::Completions(kernels::Device& device)
    : queue_(device.make_queue()), thread_(device.host() ? nullptr : std::make_unique<JobThreads>()) {}

Completions::~Completions() {
  try {
    drain();
  } catch (...) {  // whoever still cares has drained before
  }
}

void Completions::submit(kernels::Mark mark, Job job) {
  if (!thread_) {
    job(*queue_);
    return;
  }
  thread_->submit([this, mark = std::move(mark), job = std::move(job)] {
    kernels::wait(mark);
    job(*queue_);
  });
}

void Completions::drain() {
  if (thread_) thread_->drain();
}

}  // namespace kith::gossip

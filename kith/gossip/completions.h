#pragma once

#include <functional>
#include <memory>

#include "kith/base/job_threads.h"
#include "kith/kernels/device.h"

namespace kith::gossip {

// Note [Put off until the device is done]
// On an asynchronous device a step only puts its passes on the compute queue. What the neighbours must see no
// earlier than that the passes have run (the next version in the window, the release of what was read) is put
// off: one thread per engine waits, on the host, for the device to reach a mark, and then publishes and
// releases. So no queue ever waits for another worker, and a worker that dies takes no neighbour's device
// with it.
//
// The main thread drains at the start of a step: that returns when all that the step before has put off is
// done. The device then still has the forward and the backward pass of this step to do, so it does not run
// dry; and windows are never used by two threads at once. The host is thus at most one step ahead of its
// device.
//
// Where the device is the host, a job runs at once, and there is no thread.
class Completions {
 public:
  explicit Completions(kernels::Device& device);
  // Does what is left.
  ~Completions();
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  // Runs the job when the device has reached the mark; jobs run in the order given. The queue is the thread's
  // own, for copies that the job waits for.
  using Job = std::function<void(kernels::Queue&)>;
  void submit(kernels::Mark mark, Job job);

  // Returns when everything submitted is done; rethrows the first exception of a job.
  void drain();

 private:
  const std::unique_ptr<kernels::Queue> queue_;
  const std::unique_ptr<JobThreads> thread_;  // null on the host
};

// An engine's device with what the engine itself needs on it.
struct DeviceWork {
  explicit DeviceWork(kernels::Device& on) : device(on), inbound(on.make_queue()), completions(on) {}

  kernels::Device& device;
  const std::unique_ptr<kernels::Queue> inbound;  // the main thread's, for copies that passes wait for
  Completions completions;                        // last: its jobs may use all the rest
};

}  // namespace kith::gossip

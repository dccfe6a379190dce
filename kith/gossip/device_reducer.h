#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kith/base/clock.h"
#include "kith/base/dtype.h"
#include "kith/base/ids.h"
#include "kith/comm/store.h"
#include "kith/comm/transport.h"
#include "kith/kernels/device.h"

namespace kith::gossip {

// Averages vectors in device memory with every member, past the hosts' memory, on a queue of its own. One
// thread at a time.
class DeviceReducer {
 public:
  virtual ~DeviceReducer() = default;

  // Where its work runs; what fills a vector goes there before, what reads it after.
  virtual kernels::Queue& queue() = 0;

  // Puts there: the vector (not i8, on the device) becomes the members' mean. Error as for wait().
  virtual void mean(void* vector, DType type, std::size_t count, Deadline deadline) = 0;

  // Returns when the queue has done all it was given. Error when a member is gone, or has not done its part
  // before the deadline, and at once when it is cancelled (DeviceReducersOptions); no reducer of the same
  // maker works from then on.
  virtual void wait(Deadline deadline) = 0;
};

// An engine's reducers. They share what connects the members, so that all their means are asked for in the
// same order on every member. Outlives its reducers.
class DeviceReducers {
 public:
  virtual ~DeviceReducers() = default;
  virtual std::unique_ptr<DeviceReducer> make() = 0;
};

struct DeviceReducersOptions {
  std::string name;  // the same on every member
  comm::Transport* transport = nullptr;
  comm::Store* store = nullptr;
  Members members;
  const Clock* clock = nullptr;
  kernels::Device* device = nullptr;
  Deadline deadline;                                            // for meeting the others
  std::shared_ptr<const comm::Cancellation> cancellation = {};  // ends waits; may be null
};

// Null where vectors go through host memory: all members come to the same answer, from what they tell each
// other. Every member calls it. Error when one does not come before the deadline.
using MakeDeviceReducers =
    std::function<std::unique_ptr<DeviceReducers>(const DeviceReducersOptions& options)>;

// NCCL's (nccl/device_reducer.cc) where every member has a GPU to itself, in builds that have NCCL; else null
// (no_device_reducer.cc).
std::unique_ptr<DeviceReducers> make_device_reducers(const DeviceReducersOptions& options);

}  // namespace kith::gossip

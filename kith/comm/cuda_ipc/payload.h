#pragma once

#include <memory>

#include "kith/comm/shm/payload.h"

namespace kith::comm::cuda_ipc {

// Payloads in the memory of GPU `device`, which peers reach from a GPU of theirs: the same one, or one with
// peer access to it. The descriptor is of a small file that holds the handle of the memory.
//
// The spans of such a window are for kernels, not for the host. Its owner publishes a version after it has
// seen the event behind the last write complete, and a reader releases one after the event behind its last
// read: no stream ever waits for another process, so that a killed one holds nobody up. Nothing but good
// manners keeps a reader from writing.
//
// Error when the device cannot be used.
std::unique_ptr<shm::PayloadMemory> device_payloads(int device);

}  // namespace kith::comm::cuda_ipc

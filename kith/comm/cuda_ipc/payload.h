#pragma once

#include <memory>

#include "kith/base/clock.h"
#include "kith/base/log.h"
#include "kith/comm/shm/payload.h"

namespace kith::comm::cuda_ipc {

struct DevicePayloadOptions {
  int device = 0;
  Log* log = nullptr;  // may be null; outlives the payloads
  // After how long the end explains in the log what it waits for, and for how long it waits at most.
  Clock::Duration long_wait = std::chrono::seconds(1);
  Clock::Duration patience = std::chrono::seconds(30);
};

// Payloads in the memory of a GPU, which peers reach from a GPU of theirs: the same one, or one with peer
// access to it. The descriptor is of a small file that holds the handle of the memory.
//
// The spans of such a window are for kernels, not for the host. Its owner publishes a version after it has
// seen the event behind the last write complete, and a reader releases one after the event behind its last
// read: no stream ever waits for another process, so that a killed one holds nobody up. Nothing but good
// manners keeps a reader from writing.
//
// Memory is freed once its owner and all readers are done with it (Note [Readers leave first]). The end of
// these payloads waits for the readers of what is done with: nobody who has let go of all payloads, made and
// mapped, waits for one that does the same. REQUIRES there: this process has let go of them.
//
// Error when the device cannot be used.
std::unique_ptr<shm::PayloadMemory> device_payloads(const DevicePayloadOptions& options);

}  // namespace kith::comm::cuda_ipc

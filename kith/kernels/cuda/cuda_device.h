#pragma once

#include <memory>
#include <optional>

#include "kith/kernels/cuda/cuda_kernels.h"
#include "kith/kernels/device.h"

namespace kith::kernels {

// A GPU whose compute queue is the stream given, which outlives the device. Other queues are streams of its
// own that do not wait for the default stream. Error when the GPU cannot be used.
std::unique_ptr<Device> make_cuda_device(const CudaOptions& options = {});

// The GPU behind a device; nothing for other devices.
std::optional<int> cuda_index(const Device& device);

// Another stream of that GPU as a queue; it outlives the queue. Its marks and those of the device's own
// queues are of one kind.
std::unique_ptr<Queue> make_cuda_queue(const CudaOptions& options);

}  // namespace kith::kernels

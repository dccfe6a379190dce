#include <array>

#include "kith/base/error.h"
#include "kith/comm/cuda_ipc/payload.h"
#include "kith/comm/device_backends.h"
#include "kith/comm/shm/transport.h"
#include "kith/kernels/cuda/cuda_kernels.h"

namespace kith::comm {
namespace {

std::string obstacle() {
  const std::string words = shm_obstacle();
  return words.empty() ? kernels::cuda_obstacle() : words;
}

std::unique_ptr<Transport> create(const TransportOptions& options) {
  if (options.store == nullptr) {
    throw InputError("no store given", "backend cuda_ipc",
                     "give every worker a store that they share, such as a FileStore");
  }
  return std::make_unique<ShmTransport>(
      options, "cuda_ipc",
      cuda_ipc::device_payloads(
          {.device = options.device, .log = options.log, .long_wait = options.long_wait}));
}

constexpr std::array kBackends{
    Backend{"cuda_ipc", "processes of one machine, windows in GPU memory", obstacle, create},
};

}  // namespace

std::span<const Backend> device_backends() {
  return kBackends;
}

}  // namespace kith::comm

#include <array>

#include "kith/base/error.h"
#include "kith/comm/device_backends.h"

namespace kith::comm {
namespace {

std::string obstacle() {
  return "this kith was built without CUDA (-DKITH_CUDA=ON)";
}

std::unique_ptr<Transport> create(const TransportOptions&) {
  throw InputError(obstacle(), "backend cuda_ipc");
}

constexpr std::array kBackends{
    Backend{"cuda_ipc", "processes of one machine, windows in GPU memory", obstacle, create},
};

}  // namespace

std::span<const Backend> device_backends() {
  return kBackends;
}

}  // namespace kith::comm

#include "kith/launch/backend.h"

#include "kith/comm/device_backends.h"
#include "kith/comm/registry.h"

namespace kith::launch {

std::string choose_backend(const BackendQuestion& question,
                           const std::function<bool(std::string_view backend)>& available) {
  if (!question.asked.empty()) return question.asked;
  const bool one_machine = question.one_machine || question.workers == 1;
  if (question.on_gpu && one_machine && available("cuda_ipc")) return "cuda_ipc";
  if (question.workers == 1) return "inproc";
  return !one_machine && available("routed") ? "routed" : "shm";
}

bool backend_available(std::string_view name) {
  for (const std::span<const comm::Backend> table : {comm::backends(), comm::device_backends()}) {
    for (const comm::Backend& backend : table) {
      if (backend.name == name) return backend.obstacle().empty();
    }
  }
  return false;
}

}  // namespace kith::launch

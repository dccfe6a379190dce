#include "python/src/world.h"

#include <future>
#include <thread>
#include <utility>

#include <pybind11/pybind11.h>

#include "kith/launch/assignment.h"

namespace kith::python {
namespace {

namespace py = pybind11;

constexpr auto kLook = std::chrono::milliseconds(50);

std::shared_ptr<World> join_now(const JoinRequest& request) {
  launch::JoinOptions options;
  for (const auto& [name, value] : request.facts)
    options.facts.push_back({name, value});
  options.backend = request.backend;
  options.gpu = request.gpu;
  options.patience = from_seconds(request.patience_seconds);
  return {new World(launch::join(launch::discover(request.environment), options)), EndInOwnProcess{}};
}

}  // namespace

// Joining cannot be cancelled: whoever is interrupted leaves it to itself. The others hear of it when the
// process ends, or when the patience does.
std::shared_ptr<World> join(const JoinRequest& request) {
  std::packaged_task<std::shared_ptr<World>()> task([request] { return join_now(request); });
  std::future<std::shared_ptr<World>> world = task.get_future();
  std::thread(std::move(task)).detach();
  while (true) {
    {
      const py::gil_scoped_release released;
      if (world.wait_for(kLook) == std::future_status::ready) return world.get();
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

}  // namespace kith::python

#include "python/src/world.h"

#include <future>
#include <thread>
#include <utility>

#include <pybind11/pybind11.h>

#include "kith/launch/assignment.h"
#include "python/src/remembering_transport.h"

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

// Another list of workers is another transport, which remembers as the first one does. The world's own
// transport stays at the first list.
World::World(launch::World world)
    : world_(std::make_unique<launch::World>(std::move(world))), store_(world_->store()) {
  const std::shared_ptr<comm::Transport> first(std::shared_ptr<void>{}, &world_->transport());
  comm::ExtensibleTransport* const inner = world_->extensible();
  if (!inner) {
    transport_ = std::make_unique<RememberingTransport>(first, waits_);
    return;
  }
  auto extensible = std::make_unique<comm::ExtensibleTransport>(
      std::make_shared<RememberingTransport>(first, waits_),
      [inner, waits = waits_](const std::string& name,
                              const std::vector<WorkerId>& workers) -> std::shared_ptr<comm::Transport> {
        return std::make_shared<RememberingTransport>(inner->extend(name, workers), waits);
      });
  extensible_ = extensible.get();
  transport_ = std::move(extensible);
}

engine::WorldParts World::engine(const std::vector<WorkerId>& members) {
  engine::WorldParts seen = engine::seen_by_engine(*world_);
  seen.transport = transport_.get();
  seen.extensible = extensible_;
  seen.store = &store_;
  if (members.empty()) return seen;
  seen.members = {0, members};
  seen.newcomer = false;
  return seen;
}

void World::close() {
  transport_.reset();
  world_.reset();
}

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

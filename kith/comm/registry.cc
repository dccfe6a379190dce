#include "kith/comm/registry.h"

#include <array>
#include <string>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/device_backends.h"
#include "kith/comm/inproc/world.h"
#include "kith/comm/routed/backends.h"
#include "kith/comm/shm/transport.h"

namespace kith::comm {
namespace {

std::string no_obstacle() {
  return {};
}

std::unique_ptr<Transport> create_inproc(const TransportOptions& options) {
  if (options.world == nullptr) {
    throw InputError("no shared world given", "backend inproc", "hand every worker the same InprocWorld");
  }
  if (options.world->workers() != options.workers) {
    throw InputError(cat(options.workers.size(), " workers given, the shared world has ",
                         options.world->workers().size(), " (or others)"),
                     "backend inproc", "list the world's own workers");
  }
  return options.world->join(options.self, options.log, options.long_wait);
}

std::unique_ptr<Transport> create_shm(const TransportOptions& options) {
  if (options.store == nullptr) {
    throw InputError("no store given", "backend shm",
                     "give every worker a store that they share, such as a FileStore");
  }
  return std::make_unique<ShmTransport>(options);
}

constexpr std::array kBackends{
    Backend{"inproc", "threads of one process", no_obstacle, create_inproc},
    Backend{"shm", "processes of one machine", shm_obstacle, create_shm},
    Backend{"ucx", "processes anywhere, over the network", ucx_obstacle, create_ucx},
    Backend{"routed", "processes anywhere: shared memory inside a machine, ucx between", ucx_obstacle,
            create_routed},
};

}  // namespace

std::span<const Backend> backends() {
  return kBackends;
}

std::unique_ptr<Transport> make_transport(std::string_view name, const TransportOptions& options) {
  std::vector<std::string> names;
  for (const std::span<const Backend> table : {backends(), device_backends()}) {
    for (const Backend& backend : table) {
      names.emplace_back(backend.name);
      if (backend.name != name) continue;
      const std::string obstacle = backend.obstacle();
      if (!obstacle.empty()) throw InputError(obstacle, cat("backend ", name), "choose another backend");
      return backend.create(options);
    }
  }
  throw InputError(cat("'", name, "' is not a backend"), "transport", suggest(name, names));
}

}  // namespace kith::comm

#include "kith/launch/world.h"

#include <algorithm>
#include <utility>

#include "kith/base/check.h"

namespace kith::launch {
namespace {

constexpr auto kFarewell = std::chrono::seconds(10);  // for the others to leave before the store does

}  // namespace

void Farewell::operator()(comm::TcpStoreServer* server) const {
  const std::unique_ptr<comm::TcpStoreServer> owned(server);
  owned->drain(SteadyClock().now() + kFarewell);
}

World::World(WorldParts parts) : parts_(std::move(parts)), clock_(std::make_unique<SteadyClock>()) {
  KITH_CHECK(parts_.store && parts_.transport && parts_.log, "a world has a store, a transport and a log");
  members_.workers = parts_.transport->workers();
}

int World::local_rank() const {
  const std::vector<int>& machines = transport().machines();
  const auto own = machines.begin() + rank();
  return static_cast<int>(std::count(machines.begin(), own, *own));
}

}  // namespace kith::launch

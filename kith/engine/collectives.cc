#include "kith/engine/collectives.h"

#include <utility>

#include "kith/base/text.h"
#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::engine {
namespace {

// Elements of the windows.
constexpr std::size_t kCollectiveChunk = std::size_t{1} << 19;

}  // namespace

Collectives::Collectives(const World& world, std::string name, Clock::Duration patience)
    : world_(world), name_(std::move(name)), patience_(patience) {}
Collectives::~Collectives() = default;

template <class T>
gossip::Collective<T>& Collectives::opened(Opened<T>& of_type) {
  if (!of_type.collective) {
    of_type.kernels = kernels::make_cpu_kernels<T>({});
    of_type.collective = std::make_unique<gossip::Collective<T>>(
        *world_.transport, world_.members, *of_type.kernels, *world_.clock,
        gossip::CollectiveOptions{cat(name_, "/all", 8 * sizeof(T)), kCollectiveChunk, patience_});
  }
  return *of_type.collective;
}

template gossip::Collective<float>& Collectives::opened(Opened<float>&);
template gossip::Collective<double>& Collectives::opened(Opened<double>&);

}  // namespace kith::engine

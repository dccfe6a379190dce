#include "kith/engine/collectives.h"

#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::engine {

Collectives::Collectives(const WorldParts& world, CollectivesOptions options)
    : world_(world), options_(std::move(options)) {}
Collectives::~Collectives() = default;

template <class T>
gossip::Tree<T>& Collectives::opened(Opened<T>& of_type) {
  if (!of_type.tree) {
    of_type.kernels = kernels::make_cpu_kernels<T>({});
    of_type.tree = std::make_unique<gossip::Tree<T>>(
        *world_.transport, world_.members, *of_type.kernels, *world_.clock,
        gossip::TreeOptions{cat(options_.name, 8 * sizeof(T)), options_.count, options_.patience});
  }
  return *of_type.tree;
}

void require_everybody(const gossip::RoundReport& report, std::string_view what) {
  const auto missing = report.missing();
  if (!missing) return;
  throw Error(cat(*missing, report.lost.empty() ? " did not come" : " is gone"), what,
              "look at that worker's log");
}

template gossip::Tree<float>& Collectives::opened(Opened<float>&);
template gossip::Tree<double>& Collectives::opened(Opened<double>&);

}  // namespace kith::engine

#include "kith/engine/collectives.h"

#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::engine {

Collectives::Collectives(const World& world, CollectivesOptions options)
    : world_(world), options_(std::move(options)) {}
Collectives::~Collectives() = default;

template <class T>
gossip::Collective<T>& Collectives::opened(Opened<T>& of_type) {
  if (!of_type.collective) {
    of_type.kernels = kernels::make_cpu_kernels<T>({});
    of_type.collective = std::make_unique<gossip::Collective<T>>(
        *world_.transport, world_.members, *of_type.kernels, *world_.clock,
        gossip::CollectiveOptions{cat(options_.name, 8 * sizeof(T)), options_.count, options_.patience});
  }
  return *of_type.collective;
}

void require_everybody(const gossip::RoundReport& report, std::string_view what) {
  if (report.complete()) return;
  const WorkerId missing = report.lost.empty() ? report.late.front() : report.lost.front();
  throw Error(cat(missing, report.lost.empty() ? " did not come" : " is gone"), what,
              "look at that worker's log");
}

template gossip::Collective<float>& Collectives::opened(Opened<float>&);
template gossip::Collective<double>& Collectives::opened(Opened<double>&);

}  // namespace kith::engine

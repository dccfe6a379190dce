#include <algorithm>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/graph/base_graph.h"
#include "kith/graph/topologies/topologies.h"

namespace kith::graph {
namespace {

class Base final : public Schedule {
 public:
  Base(const char* name, const Shape& shape, int degree)
      : Schedule(name, shape), graph_(shape.workers(), degree) {}

  std::int64_t period() const override { return std::max(1, graph_.rounds()); }

  WorkerRound round(Rank rank, std::int64_t t) const override {
    if (graph_.rounds() == 0) return {.group = {rank}};
    BasePart part = graph_.at(rank, static_cast<int>(t % period()));
    WorkerRound out;
    if (part.partners.empty()) {
      out.group = std::move(part.group);
      return out;
    }
    out.form = Form::neighbours;
    out.self_weight = 1 - part.partner_weight * static_cast<double>(part.partners.size());
    for (int partner : part.partners)
      out.reads.push_back({partner, part.partner_weight});
    out.readers = std::move(part.partners);
    return out;
  }

 private:
  const BaseGraph graph_;
};

}  // namespace

// For a power of two the base-2 graph is the one-peer exponential graph, i XOR 2^r; for any other n it is the
// generalisation that stays exact.
std::unique_ptr<Schedule> make_exp(const ScheduleOptions& options) {
  return std::make_unique<Base>("exp", options.shape, 1);
}

std::unique_ptr<Schedule> make_base(const ScheduleOptions& options) {
  if (options.degree < 1) throw InputError(cat("degree ", options.degree), "base", "at least 1");
  return std::make_unique<Base>("base", options.shape, options.degree);
}

}  // namespace kith::graph

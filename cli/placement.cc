#include "cli/placement.h"

#include "kith/graph/shape.h"

namespace kith::cli {

std::string nodes_of(const comm::Transport& transport) {
  const auto shape = graph::Shape::of_machines(transport.machines());
  return shape && shape->nodes() > 1 ? shape->text() : std::string();
}

}  // namespace kith::cli

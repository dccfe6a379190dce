#pragma once

#include <map>
#include <vector>

#include "kith/base/ids.h"
#include "kith/graph/shape.h"

namespace kith::engine {

// Which node each worker is of, through all views: those of the first view as its shape says, those who join
// later where there is room. The same on all workers. One thread.
class Roster {
 public:
  Roster() = default;
  Roster(const Members& first, const graph::Shape& shape);
  explicit Roster(std::map<WorkerId, int> nodes) : nodes_(std::move(nodes)) {}

  // Gives every member that has none a node: of those with a member on its machine the smallest, then the
  // first; one of its own where there is none. `machines` by rank.
  void take_in(const Members& members, const std::vector<int>& machines);

  // The members node by node, as a shape wants them; equal to what it was where nobody has joined.
  Members ordered(Members members) const;
  // REQUIRES: ordered members.
  graph::Shape shape(const Members& members) const;

  const std::map<WorkerId, int>& nodes() const { return nodes_; }

 private:
  std::map<WorkerId, int> nodes_;
};

}  // namespace kith::engine

#pragma once

#include <vector>

#include "kith/base/ids.h"

namespace kith::gossip {

// Where a rank stands in the tree over all ranks. Everybody's subtree is a stretch of ranks that begins with
// itself; the rest of it is halved among at most two children. So rank 0 is the root, nobody is farther from
// it than log2 of the ranks, what a subtree holds lies in rank order, and ranks that share a machine, which
// are mostly neighbours, have few edges to others. A pure function, O(log size).
struct TreePlace {
  Rank self = 0;
  Rank parent = -1;  // -1: the root
  Rank end = 0;      // the subtree is [self, end)
  std::vector<Rank> children = {};

  static TreePlace of(int size, Rank self);

  // Who is next on the way to that other rank, by the edges of the tree.
  Rank towards(Rank other) const;
  // Parent and children, but for that one; ascending.
  std::vector<Rank> all_but(Rank neighbour) const;
};

}  // namespace kith::gossip

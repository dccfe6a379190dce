#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kith/base/ids.h"

namespace kith::graph {

// How many workers each node has; ranks are contiguous by node. What a schedule sees, which may differ from
// the placement that decides who really shares a machine.
class Shape {
 public:
  // REQUIRES: at least one node, every node at least one worker; InputError otherwise.
  explicit Shape(std::vector<int> workers_per_node);
  static Shape single_node(int workers);
  // "4,4,2" or "8x4" (8 nodes of 4). InputError naming `place` otherwise.
  static Shape parse(std::string_view text, std::string_view place);
  // One node per machine; machines[r] is rank r's, numbered from 0 by their first worker. Nothing when the
  // workers of a machine do not follow each other: no shape tells who shares one, then.
  static std::optional<Shape> of_machines(std::span<const int> machines);

  int workers() const { return first_.back(); }
  int nodes() const { return static_cast<int>(first_.size()) - 1; }
  int node_of(Rank rank) const;
  Rank first_of(int node) const { return first_[static_cast<std::size_t>(node)]; }
  int size_of(int node) const { return first_of(node + 1) - first_of(node); }
  bool same_node(Rank a, Rank b) const { return node_of(a) == node_of(b); }

  std::string text() const;  // "4,4,2"
  bool operator==(const Shape&) const = default;

 private:
  std::vector<int> first_;  // first rank of each node, then the number of workers
};

}  // namespace kith::graph

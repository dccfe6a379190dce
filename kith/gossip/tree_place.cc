#include "kith/gossip/tree_place.h"

#include "kith/base/check.h"

namespace kith::gossip {
namespace {

// Where the second child of [first, end) begins; `end` where there is none.
Rank second_child(Rank first, Rank end) {
  return first + 1 + (end - first) / 2;
}

}  // namespace

TreePlace TreePlace::of(int size, Rank self) {
  KITH_CHECK(self >= 0 && self < size, "a rank of the tree");
  TreePlace place{.self = 0, .parent = -1, .end = size};
  while (place.self != self) {
    const Rank second = second_child(place.self, place.end);
    place.parent = place.self;
    if (self < second) {
      place.end = second;
      ++place.self;
    } else {
      place.self = second;
    }
  }
  const Rank second = second_child(self, place.end);
  if (self + 1 < place.end) place.children.push_back(self + 1);
  if (second < place.end) place.children.push_back(second);
  return place;
}

Rank TreePlace::towards(Rank other) const {
  if (other < self || other >= end) return parent;
  return children.size() > 1 && other >= children[1] ? children[1] : children[0];
}

std::vector<Rank> TreePlace::all_but(Rank neighbour) const {
  std::vector<Rank> others;
  if (parent >= 0 && parent != neighbour) others.push_back(parent);
  for (const Rank child : children)
    if (child != neighbour) others.push_back(child);
  return others;
}

}  // namespace kith::gossip

#pragma once

#include <vector>

namespace kith::graph {

// What one participant does in a round of a base graph: average with a group, or, when `partners` is not
// empty, take `partner_weight` of each partner and keep the rest of itself. Weights are the same seen from
// both ends.
struct BasePart {
  std::vector<int> group;     // ascending, oneself included
  std::vector<int> partners;  // ascending, without oneself
  double partner_weight = 0;
};

// Base-(k+1) graphs (Takezawa et al. 2023, arXiv 2305.11420): rounds in which nobody has more than k peers,
// whose product is the exact average for every n. Vocabulary:
//   hyper-hypercube  n = f1 f2 ... with every factor at most k+1; round r averages the f_r participants
//                    that differ in digit r of their mixed-radix index
//   simple base      n written in base k+1, one part per non-zero digit. Each part averages itself; then,
//                    part by part, everybody in later parts exchanges with one participant of each block of
//                    the part, after which later parts hold the average and the part's blocks hold it in
//                    their mean; then blocks average themselves once more
//   base             n = p q with p the product of the prime factors at most k+1: simple base on p sets of
//                    q, then a hyper-hypercube across the sets; or the simple base on n, whichever has fewer
//                    rounds
// Immutable. Everything is arithmetic on digits: memory is O(log n).
class BaseGraph {
 public:
  // REQUIRES: n >= 1, k >= 1.
  BaseGraph(int n, int k);

  int rounds() const { return inner_rounds_ + static_cast<int>(outer_.size()); }  // 0 when n == 1
  // REQUIRES: 0 <= index < n, 0 <= round < rounds().
  BasePart at(int index, int round) const;

 private:
  // One non-zero digit of q in base k+1: `blocks` blocks of `block` participants from `first` on.
  struct Part {
    int first = 0;
    int blocks = 0;
    int block = 1;
    int remaining = 0;          // participants in this and later parts
    std::vector<int> in_block;  // factors of a block
    std::vector<int> whole;     // factors of the part
  };

  static std::vector<Part> parts_of(int q, int k);
  static int simple_rounds(const std::vector<Part>& parts);
  BasePart simple(int index, int round) const;
  BasePart exchange(int index, int part, int step) const;

  int q_ = 1;
  int inner_rounds_ = 0;
  std::vector<Part> parts_;
  std::vector<int> outer_;  // factors of p
};

}  // namespace kith::graph

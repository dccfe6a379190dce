#include "kith/graph/base_graph.h"

#include <algorithm>

#include "kith/base/check.h"

namespace kith::graph {
namespace {

// Exactly `count` factors of at most `limit` whose product is n, or nothing.
std::vector<int> factors_of(int n, int limit, int count) {
  if (count == 1) return n <= limit ? std::vector<int>{n} : std::vector<int>{};
  for (int factor = std::min(limit, n); factor >= 2; --factor) {
    if (n % factor != 0) continue;
    std::vector<int> rest = factors_of(n / factor, factor, count - 1);
    if (rest.empty()) continue;
    rest.push_back(factor);
    return rest;
  }
  return {};
}

// The fewest factors of at most `limit`. REQUIRES: no prime factor of n exceeds limit.
std::vector<int> fewest_factors(int n, int limit) {
  if (n == 1) return {};
  for (int count = 1;; ++count) {
    if (std::vector<int> found = factors_of(n, limit, count); !found.empty()) return found;
  }
}

// The largest divisor of n whose prime factors are all at most `limit`.
int smooth_part(int n, int limit) {
  int smooth = 1;
  for (int prime = 2; prime <= limit && prime <= n; ++prime) {
    for (; n % prime == 0; n /= prime)
      smooth *= prime;
  }
  return smooth;
}

// The group of `index` in round `round` of a hyper-hypercube.
std::vector<int> digit_group(int index, const std::vector<int>& factors, int round) {
  int stride = 1;
  for (int r = 0; r < round; ++r)
    stride *= factors[static_cast<std::size_t>(r)];
  const int radix = factors[static_cast<std::size_t>(round)];
  const int lowest = index - index / stride % radix * stride;
  std::vector<int> group;
  group.reserve(static_cast<std::size_t>(radix));
  for (int digit = 0; digit < radix; ++digit)
    group.push_back(lowest + digit * stride);
  return group;
}

int length(const std::vector<int>& factors) {
  return static_cast<int>(factors.size());
}

void shift(std::vector<int>& indices, int by) {
  for (int& index : indices)
    index += by;
}

}  // namespace

BaseGraph::BaseGraph(int n, int k) {
  KITH_CHECK_GE(n, 1, "participants of a base graph");
  KITH_CHECK_GE(k, 1, "peers of a base graph");
  const int limit = std::min(k, n) + 1;
  const int p = smooth_part(n, limit);
  std::vector<int> outer = fewest_factors(p, limit);
  std::vector<Part> with_outer = parts_of(n / p, limit - 1), alone = parts_of(n, limit - 1);
  if (simple_rounds(alone) < simple_rounds(with_outer) + length(outer)) {
    q_ = n;
    parts_ = std::move(alone);
  } else {
    q_ = n / p;
    parts_ = std::move(with_outer);
    outer_ = std::move(outer);
  }
  inner_rounds_ = simple_rounds(parts_);
}

std::vector<BaseGraph::Part> BaseGraph::parts_of(int q, int k) {
  const int radix = k + 1;
  int block = 1;
  std::vector<int> in_block;
  for (; block <= q / radix; block *= radix)
    in_block.push_back(radix);
  std::vector<Part> parts;
  int first = 0;
  for (; block >= 1; block /= radix) {
    const int blocks = (q - first) / block;
    if (blocks > 0) {
      Part part{first, blocks, block, q - first, in_block, in_block};
      if (blocks > 1) part.whole.push_back(blocks);
      parts.push_back(std::move(part));
      first += blocks * block;
    }
    if (!in_block.empty()) in_block.pop_back();
  }
  return parts;
}

int BaseGraph::simple_rounds(const std::vector<Part>& parts) {
  const Part& largest = parts.front();
  return length(largest.whole) + (parts.size() == 1 ? 0 : 1 + length(largest.in_block));
}

BasePart BaseGraph::at(int index, int round) const {
  KITH_CHECK_LT(round, rounds(), "round of a base graph");
  const int set = index / q_;
  BasePart part;
  if (round < inner_rounds_) {
    part = simple(index % q_, round);
    shift(part.group, set * q_);
    shift(part.partners, set * q_);
    return part;
  }
  part.group = digit_group(set, outer_, round - inner_rounds_);
  for (int& member : part.group)
    member = member * q_ + index % q_;
  return part;
}

BasePart BaseGraph::simple(int index, int round) const {
  const auto after =
      std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return p.first > index; });
  const int mine = static_cast<int>(after - parts_.begin()) - 1;
  const Part& part = parts_[static_cast<std::size_t>(mine)];
  const int last = static_cast<int>(parts_.size()) - 1;
  const int opening = length(parts_.front().whole);
  const int step = round - opening;
  if (step >= 0 && step < last && step <= mine) return exchange(index, mine, step);

  // Parts with fewer rounds than the largest repeat theirs: harmless to the product from round 0, and it
  // helps whoever starts in the middle.
  const std::vector<int>& factors = step < 0 ? part.whole : part.in_block;
  const int turn = step < 0 ? round : step - std::min(mine + 1, last);
  BasePart out;
  if (factors.empty()) {
    out.group = {index};
  } else {
    out.group = digit_group(index - part.first, factors, turn % length(factors));
    shift(out.group, part.first);
  }
  return out;
}

BasePart BaseGraph::exchange(int index, int mine, int step) const {
  const Part& giver = parts_[static_cast<std::size_t>(step)];
  const int later = giver.first + giver.blocks * giver.block;  // first participant of the later parts
  BasePart out;
  out.partner_weight = static_cast<double>(giver.block) / giver.remaining;
  if (mine > step) {
    for (int b = 0; b < giver.blocks; ++b)
      out.partners.push_back(giver.first + b * giver.block + index - later);
    return out;
  }
  const int place = (index - giver.first) % giver.block;
  if (later + place < q_) {
    out.partners = {later + place};
  } else {
    out.group = {index};
  }
  return out;
}

}  // namespace kith::graph

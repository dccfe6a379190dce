#pragma once

#include <string>
#include <vector>

#include "kith/plan/evaluate.h"

namespace kith::plan {

// A topology must reach the same loss faster than all-reduce by this factor to be preferred.
inline constexpr double kWorthChanging = 1.03;

struct Recommendation {
  Prediction choice;
  std::string reason;  // one sentence
  // Of each kind (16-bit wires and longer periods; codecs; outer loops) the fastest that would be much
  // faster, with what it costs, or that this has not been measured; empty: none.
  std::string remark;
};

// The rule, in order:
//   1. Of the plain candidates, those within 2% of the fastest; of these the one that agrees fastest.
//   2. All-reduce, unless that reaches the same loss faster by kWorthChanging: time per iteration times the
//      measured steps factor.
//   3. The bucket size that is fastest for it, when that gains 2%.
// REQUIRES: predictions of evaluate().
Recommendation recommend(const std::vector<Prediction>& predictions);

}  // namespace kith::plan

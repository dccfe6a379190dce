#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kith::sim {

// A distribution of mean 1 as a table of its quantile function, so that a draw of any shape costs one hash,
// one look-up and one interpolation. The knots are spaced by octaves of the tail probability (32 in each,
// down to 2^-32), hence tails stay true where a maximum over many thousand workers reads them. Immutable
// after construction.
class QuantileTable {
 public:
  // `lower(p)` and `upper(p)` are the quantiles at p and at 1 - p, for 0 < p <= 1/2. The table is scaled to
  // mean 1 exactly. REQUIRES: both monotone and finite, the mean positive.
  QuantileTable(const std::function<double(double)>& lower, const std::function<double(double)>& upper);

  // One value for each 32-bit word: the same words give the same values, whatever the instruction set.
  // REQUIRES: words.size() == out.size(), a multiple of 8.
  void draw(std::span<const std::uint32_t> words, std::span<double> out) const;

  // By how much the raw quantiles were divided: their mean.
  double raw_mean() const { return raw_mean_; }
  double standard_deviation() const { return standard_deviation_; }

 private:
  std::vector<double> base_;   // value at the left knot of each bin, lower side then upper side
  std::vector<double> slope_;  // rise over the bin
  double raw_mean_ = 1;
  double standard_deviation_ = 0;
};

// Fills `words` with the splitmix64 stream of `key`, two words for each 64-bit output. REQUIRES: an even
// size.
void fill_words(std::uint64_t key, std::span<std::uint32_t> words);

}  // namespace kith::sim

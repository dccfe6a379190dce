#include "kith/sim/quantile_table.h"

#include <cmath>

#include "kith/base/check.h"
#include "kith/sim/draw.h"

namespace kith::sim {
namespace {

// x at the left knot of a bin; the bin after the last one starts where p reaches 1/2.
double knot(std::size_t bin) {
  const std::size_t octave = bin >> kBinBits;
  const std::size_t inside = bin & ((std::size_t{1} << kBinBits) - 1);
  return std::ldexp(1.0 + static_cast<double>(inside) / (1 << kBinBits), static_cast<int>(octave) - 1);
}

}  // namespace

QuantileTable::QuantileTable(const std::function<double(double)>& lower,
                             const std::function<double(double)>& upper)
    : base_(2 * kBins), slope_(2 * kBins) {
  double mean = 0;
  double square = 0;
  for (std::size_t side = 0; side < 2; ++side) {
    const auto& quantile = side == 0 ? lower : upper;
    double left = quantile(std::ldexp(knot(0), -32));
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      const double right = quantile(std::ldexp(knot(bin + 1), -32));
      base_[side * kBins + bin] = left;
      slope_[side * kBins + bin] = right - left;
      const double mass = std::ldexp(knot(bin + 1) - knot(bin), -32);
      mean += mass * (left + right) / 2;
      square += mass * (left * left + left * right + right * right) / 3;
      left = right;
    }
  }
  const double covered = 1 - std::ldexp(1.0, -32);  // both sides start at x = 1/2
  mean /= covered;
  square /= covered;
  KITH_CHECK(mean > 0 && std::isfinite(square), "a table needs finite quantiles of positive mean");
  raw_mean_ = mean;
  standard_deviation_ = std::sqrt(std::max(0.0, square / (mean * mean) - 1));
  for (double& value : base_)
    value /= mean;
  for (double& value : slope_)
    value /= mean;
}

void QuantileTable::draw(std::span<const std::uint32_t> words, std::span<double> out) const {
  KITH_CHECK_EQ(words.size(), out.size(), "one word for each value");
  KITH_CHECK_EQ(words.size() % 8, 0U, "draws come in eights");
  draw_values(words.data(), words.size(), base_.data(), slope_.data(), out.data());
}

void fill_words(std::uint64_t key, std::span<std::uint32_t> words) {
  KITH_CHECK_EQ(words.size() % 2, 0U, "words come in pairs");
  draw_words(key, words.size() / 2, words.data());
}

}  // namespace kith::sim

#include "kith/train/study/statistics.h"

#include <array>
#include <cmath>
#include <numeric>

#include "kith/base/check.h"

namespace kith::train::study {

double student_t95(std::size_t degrees) {
  static constexpr std::array kTable{6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
                                     1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725};
  KITH_CHECK(degrees >= 1, "one value has no spread");
  if (degrees <= kTable.size()) return kTable[degrees - 1];
  constexpr double kNormal = 1.6449;
  return kNormal + (kNormal * kNormal * kNormal + kNormal) / (4 * static_cast<double>(degrees));
}

Estimate estimate(std::span<const double> values) {
  KITH_CHECK(!values.empty(), "there is no mean of nothing");
  const auto n = static_cast<double>(values.size());
  Estimate result{.mean = std::accumulate(values.begin(), values.end(), 0.0) / n,
                  .low = NAN,
                  .high = NAN,
                  .count = values.size()};
  if (values.size() < 2) return result;
  double square = 0;
  for (const double value : values)
    square += (value - result.mean) * (value - result.mean);
  const double half = student_t95(values.size() - 1) * std::sqrt(square / (n - 1) / n);
  result.low = result.mean - half;
  result.high = result.mean + half;
  return result;
}

std::optional<Estimate> jackknife(
    std::size_t repeats,
    const std::function<std::optional<double>(std::span<const std::size_t>)>& statistic) {
  std::vector<std::size_t> all(repeats);
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::optional<double> whole = repeats > 0 ? statistic(all) : std::nullopt;
  if (!whole) return {};
  if (repeats == 1) return Estimate{.mean = *whole, .low = NAN, .high = NAN, .count = 1};
  const auto n = static_cast<double>(repeats);
  std::vector<double> pseudo;
  for (std::size_t left_out = 0; left_out < repeats; ++left_out) {
    std::vector<std::size_t> others = all;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(left_out));
    const std::optional<double> without = statistic(others);
    if (!without) return {};
    pseudo.push_back(n * *whole - (n - 1) * *without);
  }
  const Estimate spread = estimate(pseudo);
  const double half = (spread.high - spread.low) / 2;
  return Estimate{.mean = *whole, .low = *whole - half, .high = *whole + half, .count = repeats};
}

std::optional<Crossing> steps_to_loss(std::span<const LengthLoss> lengths, double loss) {
  if (lengths.size() < 2) return {};
  std::size_t right = 1;  // of the line that is followed
  while (right + 1 < lengths.size() && lengths[right].loss > loss)
    ++right;
  const LengthLoss &a = lengths[right - 1], &b = lengths[right];
  if (!(b.loss < a.loss)) return {};
  const double way = (a.loss - loss) / (a.loss - b.loss);
  return Crossing{.steps = a.steps * std::pow(b.steps / a.steps, way), .outside = way < 0 || way > 1};
}

}  // namespace kith::train::study

#include "kith/gossip/consensus_sample.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kith/base/check.h"
#include "kith/base/rng.h"
#include "kith/kernels/half.h"
#include "kith/kernels/int8.h"

namespace kith::gossip {
namespace {

constexpr std::size_t kRuns = 64;
constexpr std::size_t kRun = 16;  // elements: a cache line of floats

using Run = std::array<double, kRun>;

template <class T, class Value>
Run load(const SampledVector& vector, std::size_t first, std::size_t length, Value value) {
  const T* const from = static_cast<const T*>(vector.data) + first;
  Run run{};
  if (length == kRun) {  // a count that the compiler knows, so that it takes several at once
    for (std::size_t k = 0; k < kRun; ++k)
      run[k] = vector.factor * value(from[k]);
  } else {
    for (std::size_t k = 0; k < length; ++k)
      run[k] = vector.factor * value(from[k]);
  }
  return run;
}

Run load_int8(const SampledVector& vector, std::size_t first, std::size_t length) {
  Run run{};
  for (std::size_t k = 0; k < length; ++k) {
    const std::size_t at = first + k;
    const std::byte* const block =
        static_cast<const std::byte*>(vector.data) + at / kernels::kInt8Block * kernels::kInt8BlockBytes;
    const auto code = std::to_integer<std::uint8_t>(block[at % kernels::kInt8Block]);
    float scale = 0;
    std::memcpy(&scale, block + kernels::kInt8Block, sizeof(scale));
    run[k] = vector.factor * kernels::float_from_int8(static_cast<std::int8_t>(code), scale);
  }
  return run;
}

// Zeros behind `length`.
Run run_of(const SampledVector& vector, std::size_t first, std::size_t length) {
  switch (vector.type) {
    case DType::f32:
      return load<float>(vector, first, length, [](float x) { return double{x}; });
    case DType::f64:
      return load<double>(vector, first, length, [](double x) { return x; });
    case DType::bf16:
      return load<std::uint16_t>(vector, first, length, kernels::float_from_bf16);
    case DType::f16:
      return load<std::uint16_t>(vector, first, length, kernels::float_from_f16);
    case DType::i8:
      return load_int8(vector, first, length);
  }
  return {};
}

double sum_of_squares(Run run) {
  for (double& x : run)
    x *= x;
  for (std::size_t half = kRun / 2; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k)
      run[k] += run[k + half];
  }
  return run[0];
}

}  // namespace

ConsensusSample sample_consensus(SampledVector own, std::span<const SampledVector> others, std::size_t count,
                                 std::uint64_t round, std::span<ConsensusSample> each) {
  if (others.empty() || count == 0) return {};
  KITH_CHECK(each.empty() || each.size() == others.size(), "one sample for each of the others, or none");
  const std::size_t stride = std::max(kRun, count / kRuns);
  const std::size_t shift = hash_words(round) % (stride - kRun + 1);
  ConsensusSample sample{.elements = count};
  std::size_t looked_at = 0;
  for (std::size_t first = shift; first < count; first += stride) {
    const std::size_t length = std::min(kRun, count - first);
    const Run here = run_of(own, first, length);
    Run move{};
    for (std::size_t j = 0; j < others.size(); ++j) {
      Run apart = run_of(others[j], first, length);
      for (std::size_t k = 0; k < kRun; ++k) {
        apart[k] -= here[k];
        move[k] += others[j].weight * apart[k];
      }
      const double squares = sum_of_squares(apart);
      sample.squares += squares;
      if (!each.empty()) each[j].squares += squares;
    }
    sample.moved += sum_of_squares(move);
    looked_at += length;
  }
  const double share = static_cast<double>(count) / static_cast<double>(looked_at);
  sample.squares *= share / (2 * static_cast<double>(others.size()));
  sample.moved *= share;
  for (ConsensusSample& one : each) {
    one.squares *= share / 2;
    one.elements = count;
  }
  return sample;
}

ConsensusSample sample_consensus(SampledVector own, SampledVector mean, std::size_t members,
                                 std::size_t count, std::uint64_t round) {
  if (members < 2) return {};
  mean.weight = 1;
  ConsensusSample sample = sample_consensus(own, {&mean, 1}, count, round);
  // A model is (g-1)/g of a squared consensus distance from the mean of g.
  sample.squares *= 2 * static_cast<double>(members) / static_cast<double>(members - 1);
  return sample;
}

}  // namespace kith::gossip

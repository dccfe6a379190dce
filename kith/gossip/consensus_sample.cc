#include "kith/gossip/consensus_sample.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kith/base/rng.h"
#include "kith/kernels/half.h"
#include "kith/kernels/int8.h"

namespace kith::gossip {
namespace {

constexpr std::size_t kRuns = 64;
constexpr std::size_t kRun = 16;  // elements: a cache line of floats

using Run = std::array<double, kRun>;

double element(const SampledVector& vector, std::size_t k) {
  switch (vector.type) {
    case DType::f32:
      return static_cast<const float*>(vector.data)[k];
    case DType::f64:
      return static_cast<const double*>(vector.data)[k];
    case DType::bf16:
      return kernels::float_from_bf16(static_cast<const std::uint16_t*>(vector.data)[k]);
    case DType::f16:
      return kernels::float_from_f16(static_cast<const std::uint16_t*>(vector.data)[k]);
    case DType::i8: {
      const std::byte* const block =
          static_cast<const std::byte*>(vector.data) + k / kernels::kInt8Block * kernels::kInt8BlockBytes;
      const auto code = std::to_integer<std::uint8_t>(block[k % kernels::kInt8Block]);
      float scale = 0;
      std::memcpy(&scale, block + kernels::kInt8Block, sizeof(scale));
      return kernels::float_from_int8(static_cast<std::int8_t>(code), scale);
    }
  }
  return 0;
}

Run run_of(const SampledVector& vector, std::size_t first, std::size_t length) {
  Run run{};
  for (std::size_t k = 0; k < length; ++k)
    run[k] = vector.factor * element(vector, first + k);
  return run;
}

}  // namespace

ConsensusSample sample_consensus(SampledVector own, std::span<const SampledVector> others, std::size_t count,
                                 std::uint64_t round) {
  if (others.empty() || count == 0) return {};
  const std::size_t stride = std::max(kRun, count / kRuns);
  const std::size_t shift = hash_words(round) % (stride - kRun + 1);
  double sum = 0, moved = 0;
  std::size_t looked_at = 0;
  for (std::size_t first = shift; first < count; first += stride) {
    const std::size_t length = std::min(kRun, count - first);
    const Run here = run_of(own, first, length);
    Run move{};
    for (const SampledVector& other : others) {
      const Run there = run_of(other, first, length);
      for (std::size_t k = 0; k < length; ++k) {
        const double difference = there[k] - here[k];
        sum += difference * difference;
        move[k] += other.weight * difference;
      }
    }
    for (const double one : move)
      moved += one * one;
    looked_at += length;
  }
  const double share = static_cast<double>(count) / static_cast<double>(looked_at);
  return {.squares = sum / (2 * static_cast<double>(others.size())) * share,
          .moved = moved * share,
          .elements = count};
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

// What a worker can tell of the consensus distance from the models that it reads anyway.

#include "kith/gossip/consensus_sample.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kith/base/rng.h"
#include "kith/kernels/half.h"

namespace kith::gossip {
namespace {

using Model = std::vector<float>;

// Models that lie around zero, sigma apart from it in every element.
std::vector<Model> models(std::size_t workers, std::size_t count, double sigma) {
  std::vector<Model> all(workers, Model(count));
  Rng rng(7);
  for (Model& model : all) {
    for (float& x : model)
      x = static_cast<float>(sigma * rng.normal());
  }
  return all;
}

double consensus_distance(const std::vector<Model>& all) {
  double squares = 0;
  for (std::size_t k = 0; k < all.front().size(); ++k) {
    double mean = 0;
    for (const Model& model : all)
      mean += model[k] / static_cast<double>(all.size());
    for (const Model& model : all)
      squares += (model[k] - mean) * (model[k] - mean);
  }
  return std::sqrt(squares / static_cast<double>(all.size()));
}

TEST(ConsensusSample, AThousandElementsTellTheDistanceOfAMillion) {
  const std::size_t count = 1'000'000;
  const auto all = models(8, count, 1e-3);
  std::vector<SampledVector> others;
  for (std::size_t i = 1; i < all.size(); ++i)
    others.push_back({all[i].data(), DType::f32});
  const auto sample = sample_consensus({all[0].data(), DType::f32}, others, count, 3);
  // Around the mean of 8 rather than of everybody: sqrt(8/7).
  EXPECT_NEAR(sample.distance(count).value() / (consensus_distance(all) * std::sqrt(8.0 / 7)), 1, 0.05);
}

TEST(ConsensusSample, AMeanTellsAsMuchAsTheModels) {
  const std::size_t count = 100'000;
  const auto all = models(4, count, 1);
  std::vector<double> mean(count);
  for (const Model& model : all) {
    for (std::size_t k = 0; k < count; ++k)
      mean[k] += model[k] / 4;
  }
  const auto sample = sample_consensus({all[0].data(), DType::f32}, {mean.data(), DType::f64}, 4, count, 1);
  EXPECT_NEAR(sample.distance(count).value() / std::sqrt(static_cast<double>(count)), 1, 0.1);
}

TEST(ConsensusSample, EqualModelsAreZeroApartAndFewElementsAreAllLookedAt) {
  for (const std::size_t count : {1u, 15u, 17u, 1000u, 1025u}) {
    Model a(count, 2.0F), b(count, 4.0F);
    const SampledVector own{a.data(), DType::f32};
    const SampledVector pushed{b.data(), DType::f32, 0.5};  // a push-sum weight of 2
    EXPECT_EQ(sample_consensus(own, {&pushed, 1}, count, 9).distance(count), 0.0) << count;
    const SampledVector apart{b.data(), DType::f32};
    EXPECT_NEAR(sample_consensus(own, {&apart, 1}, count, 9).distance(count).value(),
                std::sqrt(2.0 * static_cast<double>(count)), 1e-9)
        << count;
  }
}

// A block of int8 is its 128 codes and then their scale.
TEST(ConsensusSample, ReadsTheBlocksOfAnInt8Wire) {
  constexpr std::size_t kCount = 256;
  std::vector<std::byte> codes(bytes_of(DType::i8, kCount));
  Model plain(kCount);
  for (std::size_t block = 0; block < 2; ++block) {
    const float scale = block == 0 ? 0.5F : 0.25F;
    for (std::size_t k = 0; k < 128; ++k) {
      codes[132 * block + k] = static_cast<std::byte>(static_cast<int>(k) - 64);
      plain[128 * block + k] = scale * static_cast<float>(static_cast<int>(k) - 64);
    }
    std::memcpy(codes.data() + 132 * block + 128, &scale, sizeof(scale));
  }
  Model zeros(kCount, 0.0F);
  const SampledVector own{zeros.data(), DType::f32}, floats{plain.data(), DType::f32},
      bytes{codes.data(), DType::i8};
  EXPECT_EQ(sample_consensus(own, {&bytes, 1}, kCount, 3).distance(kCount),
            sample_consensus(own, {&floats, 1}, kCount, 3).distance(kCount));
}

TEST(ConsensusSample, EachNeighbourIsTakenByItselfInTheSamePass) {
  for (const std::size_t count : {40u, 5000u}) {
    const auto all = models(4, count, 1);
    const SampledVector own{all[0].data(), DType::f32};
    const std::vector<SampledVector> others{{all[1].data(), DType::f32, 2.0, 0.25},
                                            {all[2].data(), DType::f32, 1.0, 0.5},
                                            {all[3].data(), DType::f32, 0.5, 0.25}};
    std::vector<ConsensusSample> each(others.size());
    const ConsensusSample together = sample_consensus(own, others, count, 5, each);
    EXPECT_EQ(together.squares, sample_consensus(own, others, count, 5).squares);
    double sum = 0;
    for (std::size_t j = 0; j < others.size(); ++j) {
      const ConsensusSample alone = sample_consensus(own, {&others[j], 1}, count, 5);
      EXPECT_DOUBLE_EQ(each[j].squares, alone.squares);
      EXPECT_EQ(each[j].elements, count);
      sum += alone.squares;
    }
    EXPECT_NEAR(together.squares, sum / 3, 1e-12 * sum);
  }
}

TEST(ConsensusSample, NothingToLookAtTellsNothing) {
  const Model a(100, 1.0F);
  const SampledVector own{a.data(), DType::f32};
  EXPECT_EQ(sample_consensus(own, {}, 100, 0).distance(100), std::nullopt);
  EXPECT_EQ(sample_consensus(own, own, 1, 100, 0).distance(100), std::nullopt);
}

}  // namespace
}  // namespace kith::gossip

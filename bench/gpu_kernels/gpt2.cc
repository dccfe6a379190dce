#include "bench/gpu_kernels/gpt2.h"

namespace kith::bench {

std::vector<Tensor> gpt2_small() {
  constexpr std::size_t kWidth = 768, kVocabulary = 50257, kPositions = 1024, kBlocks = 12;
  std::vector<Tensor> model;
  const auto add = [&](std::size_t count, bool decays) {
    model.push_back({model.empty() ? 0 : model.back().first + model.back().count, count, decays});
  };
  const auto norm = [&] {
    add(kWidth, false);
    add(kWidth, false);
  };
  const auto linear = [&](std::size_t in, std::size_t out) {
    add(in * out, true);
    add(out, false);
  };
  add(kVocabulary * kWidth, true);
  add(kPositions * kWidth, true);
  for (std::size_t block = 0; block < kBlocks; ++block) {
    norm();
    linear(kWidth, 3 * kWidth);
    linear(kWidth, kWidth);
    norm();
    linear(kWidth, 4 * kWidth);
    linear(4 * kWidth, kWidth);
  }
  norm();
  return model;
}

}  // namespace kith::bench

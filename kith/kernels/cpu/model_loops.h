#pragma once

#include <cstddef>
#include <optional>

namespace kith::kernels {

// Passes of models in float on a CPU that LibTorch makes of many. One table per instruction set, as in
// cpu/loops.h. They do not care which thread calls them, and the same input gives the same bits on a machine.

// A head's width is a multiple of this.
inline constexpr std::size_t kHeadStep = 16;

// One head of causal self-attention: `length` positions with `width` numbers each of query, key and value;
// `stride` numbers lie between those of a position and those of the next.
struct AttentionHead {
  const float* query = nullptr;
  const float* key = nullptr;
  const float* value = nullptr;
  std::size_t stride = 0;
  std::size_t length = 0;
  std::size_t width = 0;
};

// As many numbers have the rows of `weights`: the length, rounded up to whole vectors.
inline std::size_t attention_row(std::size_t length) {
  return (length + kHeadStep - 1) / kHeadStep * kHeadStep;
}

// As many numbers attend() and attend_gradient() need to work in.
inline std::size_t attention_scratch(const AttentionHead& head) {
  return (head.length + head.width) * attention_row(head.length);
}

struct AttentionGradient {
  float* query = nullptr;  // these three with the stride of the head
  float* key = nullptr;
  float* value = nullptr;
};

struct ModelLoops {
  // weights = softmax(query key' / sqrt(width)), where a position sees itself and those before, and
  // seen = weights value. `seen_stride` lies between the positions of `seen`, attention_row() between those
  // of `weights`.
  void (*attend)(const AttentionHead& head, float* weights, float* seen, std::size_t seen_stride,
                 float* scratch) = nullptr;
  // From the weights of attend() and the gradient of what it saw. Overwrites.
  void (*attend_gradient)(const AttentionHead& head, const float* weights, const float* of_seen,
                          std::size_t seen_stride, const AttentionGradient& to, float* scratch) = nullptr;
  // y = x Phi(x) with the normal distribution's Phi, and its slope dy/dx.
  void (*gelu)(const float* x, float* y, float* slope, std::size_t count) = nullptr;
};

// None where the build has no vectors: LibTorch's own passes are the faster ones then.
std::optional<ModelLoops> select_model_loops();

}  // namespace kith::kernels

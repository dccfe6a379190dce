#pragma once

#include <cstdint>

#include <torch/types.h>

namespace kith::train {

// Passes of a GPT on a CPU in float, each one loop over memory where torch makes ten
// (kith/kernels/cpu/model_loops.h). They have a first derivative and no second.

// Whether causal_attention_on_cpu() takes them: floats on a CPU, heads of whole vectors, no more positions
// than it is faster for. Query, key and value of a position lie side by side: (batch, length, 3 * width).
bool fits_attention_on_cpu(const torch::Tensor& query_key_value, std::int64_t heads);
// compat::causal_attention() of all heads without dropout, (batch, length, width).
torch::Tensor causal_attention_on_cpu(const torch::Tensor& query_key_value, std::int64_t heads);

// torch::gelu without an approximation; by torch itself where x is not float on a CPU.
torch::Tensor exact_gelu(const torch::Tensor& x);

}  // namespace kith::train

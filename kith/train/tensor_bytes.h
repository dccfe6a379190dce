#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <torch/types.h>

namespace kith::train {

// A tensor's values in host memory, row by row.
inline std::vector<std::byte> bytes_of(const torch::Tensor& tensor) {
  const torch::Tensor plain = tensor.detach().cpu().contiguous();
  const auto* const first = static_cast<const std::byte*>(plain.data_ptr());
  return {first, first + plain.nbytes()};
}

// Its type as safetensors names it; empty for one that has no name there.
inline std::string file_type_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat64:
      return "F64";
    case torch::kFloat32:
      return "F32";
    case torch::kFloat16:
      return "F16";
    case torch::kBFloat16:
      return "BF16";
    case torch::kInt64:
      return "I64";
    case torch::kInt32:
      return "I32";
    case torch::kInt16:
      return "I16";
    case torch::kInt8:
      return "I8";
    case torch::kUInt8:
      return "U8";
    case torch::kBool:
      return "BOOL";
    default:
      return "";
  }
}

}  // namespace kith::train

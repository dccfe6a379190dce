#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kith/train/safetensors.h"
#include "kith/train/tensor_bytes.h"

namespace kith::train::testing {

// Writes tensors as a safetensors file.
inline std::filesystem::path write_tensors(const std::filesystem::path& file,
                                           const std::map<std::string, torch::Tensor>& tensors) {
  std::vector<NamedTensor> named;
  std::vector<torch::Tensor> plain;
  for (const auto& [name, tensor] : tensors) {
    plain.push_back(tensor.detach().cpu().contiguous());
    named.push_back(
        {name, file_type_of(plain.back()), plain.back().sizes().vec(),
         std::span(static_cast<const std::byte*>(plain.back().data_ptr()), plain.back().nbytes())});
  }
  std::ofstream out(file, std::ios::binary);
  out << safetensors_head(named, {});
  for (const NamedTensor& tensor : named)
    out.write(reinterpret_cast<const char*>(tensor.bytes.data()),
              static_cast<std::streamsize>(tensor.bytes.size()));
  return file;
}

}  // namespace kith::train::testing

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kith::train {

// The safetensors container: 8 bytes length of the header, the header as JSON (each tensor's type, shape and
// place; texts under "__metadata__"), then the tensors one after the other, little-endian and row-major.
// Python reads it with json and struct alone.

struct NamedTensor {
  std::string name;
  std::string type;                 // "F32", "F64", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"
  std::vector<std::int64_t> shape;  // empty: one number
  std::span<const std::byte> bytes;
};

using Metadata = std::map<std::string, std::string>;

// Bytes per element; 0 for a type that is not known.
std::size_t bytes_of_type(std::string_view type);

// Everything before the first tensor's bytes. REQUIRES: each tensor's bytes are those of its type and shape.
std::string safetensors_head(std::span<const NamedTensor> tensors, const Metadata& metadata);

struct Safetensors {
  Metadata metadata;
  std::vector<NamedTensor> tensors;  // into the contents, in their order there
};

// InputError names `place` and the field that is wrong. What is returned lies within the contents, fills them
// without holes, and has the bytes that its type and shape say.
Safetensors parse_safetensors(std::span<const std::byte> contents, const std::string& place);

}  // namespace kith::train

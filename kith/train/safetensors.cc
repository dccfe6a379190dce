#include "kith/train/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/strict_json.h"

namespace kith::train {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // as in the reference implementation
constexpr std::int64_t kMost = std::int64_t{1} << 50;

struct Type {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array kTypes{Type{"F64", 8}, Type{"F32", 4}, Type{"F16", 2}, Type{"BF16", 2}, Type{"I64", 8},
                            Type{"I32", 4}, Type{"I16", 2}, Type{"I8", 1},  Type{"U8", 1},   Type{"BOOL", 1}};

// Bytes of a tensor; refuses a shape that is no shape, or of which the count overflows.
std::int64_t shape_bytes(const JsonField& shape, std::size_t element, std::vector<std::int64_t>& to) {
  auto bytes = static_cast<std::int64_t>(element);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    to.push_back(shape.at(d).integer(0, kMost));
    if (to.back() > 0 && bytes > kMost / to.back()) shape.refuse("is of a tensor that no file can hold");
    bytes *= to.back();
  }
  return bytes;
}

NamedTensor tensor_of(const std::string& name, const JsonField& entry, std::span<const std::byte> data) {
  NamedTensor tensor{name, entry.at("dtype").text(), {}, {}};
  const std::size_t element = bytes_of_type(tensor.type);
  if (element == 0) entry.at("dtype").refuse("is a type that kith does not know");
  const std::int64_t bytes = shape_bytes(entry.at("shape"), element, tensor.shape);
  const JsonField offsets = entry.at("data_offsets");
  if (offsets.size() != 2) offsets.refuse("is not two numbers");
  const auto end_of_file = static_cast<std::int64_t>(data.size());
  const std::int64_t first = offsets.at(0).integer(0, end_of_file);
  const std::int64_t last = offsets.at(1).integer(0, end_of_file);
  if (last - first != bytes) offsets.refuse(cat("are not the ", bytes, " bytes of its shape and type"));
  tensor.bytes = data.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(bytes));
  return tensor;
}

void require_no_holes(std::vector<NamedTensor>& tensors, std::span<const std::byte> data,
                      const std::string& place) {
  std::ranges::sort(tensors, {},
                    [](const NamedTensor& t) { return std::pair(t.bytes.data(), t.bytes.size()); });
  const std::byte* at = data.data();
  const auto refuse = [&](const std::string& name) {
    throw InputError(cat(name, " leaves a hole, or overlaps another tensor"), place, "the file is damaged");
  };
  for (const NamedTensor& tensor : tensors) {
    if (tensor.bytes.data() != at) refuse(cat(tensor.name, ".data_offsets"));
    at += tensor.bytes.size();
  }
  if (at != data.data() + data.size()) refuse("the end of the last tensor");
}

}  // namespace

std::size_t bytes_of_type(std::string_view type) {
  const auto found = std::ranges::find(kTypes, type, &Type::name);
  return found == kTypes.end() ? 0 : found->bytes;
}

std::string safetensors_head(std::span<const NamedTensor> tensors, const Metadata& metadata) {
  Json header;
  header[kMetadata] = metadata;
  std::uint64_t at = 0;
  for (const NamedTensor& tensor : tensors) {
    std::uint64_t bytes = bytes_of_type(tensor.type);
    for (const std::int64_t size : tensor.shape)
      bytes *= static_cast<std::uint64_t>(size);
    KITH_CHECK_EQ(bytes, tensor.bytes.size(), "a tensor has the bytes of its type and shape");
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string head(kLengthBytes, '\0');
  std::memcpy(head.data(), &length, kLengthBytes);
  return head + text;
}

Safetensors parse_safetensors(std::span<const std::byte> contents, const std::string& place) {
  std::uint64_t length = 0;
  if (contents.size() >= kLengthBytes) std::memcpy(&length, contents.data(), kLengthBytes);
  if (contents.size() < kLengthBytes || length > kMostHeaderBytes ||
      length > contents.size() - kLengthBytes) {
    throw InputError(cat("says that its header has ", length, " bytes, and has ", contents.size(), " in all"),
                     place, "it is damaged, or no safetensors file");
  }
  const auto* const text = reinterpret_cast<const char*>(contents.data()) + kLengthBytes;
  const std::span<const std::byte> data = contents.subspan(kLengthBytes + length);
  const Json header = parse_strictly({text, static_cast<std::size_t>(length)}, place);
  const JsonField root(header, "", place);
  Safetensors result;
  for (const auto& [name, value] : root.object().items()) {
    const JsonField entry(value, name, place);
    if (name != kMetadata) {
      result.tensors.push_back(tensor_of(name, entry, data));
      continue;
    }
    for (const auto& [key, unused] : entry.object().items())
      result.metadata[key] = entry.at(key).text();
  }
  require_no_holes(result.tensors, data, place);
  return result;
}

}  // namespace kith::train

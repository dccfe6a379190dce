#include "kith/train/data/idx.h"

#include <span>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/train/data/file.h"

namespace kith::train {
namespace {

constexpr std::uint32_t kUnsignedByte = 0x08;

std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
         bytes[3];
}

}  // namespace

Idx read_idx(const std::filesystem::path& file, std::uint32_t dimensions) {
  const std::vector<std::uint8_t> raw = read_bytes(file);
  const std::string place = file.string();
  if (raw.size() < 4) throw InputError(cat("has ", raw.size(), " bytes, too few for an IDX file"), place);
  if (raw[0] == 0x1f && raw[1] == 0x8b) throw InputError("is compressed", place, "unpack it with gunzip");
  if (raw[0] != 0 || raw[1] != 0)
    throw InputError("is not an IDX file: it does not begin with two zero bytes", place);
  if (raw[2] != kUnsignedByte) {
    throw InputError(cat("has elements of type ", int{raw[2]}), place,
                     cat("only unsigned bytes, type ", kUnsignedByte));
  }
  if (raw[3] != dimensions)
    throw InputError(cat("has ", int{raw[3]}, " dimensions, wanted ", dimensions), place);

  const std::size_t header = 4 + 4 * std::size_t{dimensions};
  if (raw.size() < header) throw InputError("ends within its header", place, "fetch it again");
  Idx idx;
  Uint128 expected = 1;
  for (std::uint32_t d = 0; d < dimensions; ++d) {
    idx.sizes.push_back(big_endian(std::span(raw).subspan(4 + 4 * d, 4)));
    expected *= idx.sizes.back();
    if (expected > raw.size()) break;  // cannot be right any more, and must not overflow
  }
  const std::size_t held = raw.size() - header;
  if (expected != held) {
    throw InputError(
        cat("holds ", held, " bytes after its header, which does not agree with the sizes in it"), place,
        "fetch it again");
  }
  idx.bytes.assign(raw.begin() + static_cast<std::ptrdiff_t>(header), raw.end());
  return idx;
}

}  // namespace kith::train

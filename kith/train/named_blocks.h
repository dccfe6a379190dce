#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kith/base/error.h"

namespace kith::train {

// Blocks of bytes under names, as one block: length and bytes of the name, length and bytes of the block, and
// so on. For workers of one run, which have one build of kith.
class NamedBlocks {
 public:
  void add(const std::string& name, std::span<const std::byte> block) {
    append(std::as_bytes(std::span(name)));
    append(block);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(std::span<const std::byte> block) {
    const std::uint64_t size = block.size();
    const auto length = std::as_bytes(std::span(&size, 1));
    bytes_.insert(bytes_.end(), length.begin(), length.end());
    bytes_.insert(bytes_.end(), block.begin(), block.end());
  }
  std::vector<std::byte> bytes_;
};

// They refer to `bytes`. Error when these are cut short.
inline std::map<std::string, std::span<const std::byte>> read_named_blocks(std::span<const std::byte> bytes) {
  const auto next = [&] {
    std::uint64_t size = 0;
    if (bytes.size() < sizeof size) throw Error("cut short", "named blocks");
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes = bytes.subspan(sizeof size);
    if (bytes.size() < size) throw Error("cut short", "named blocks");
    const auto block = bytes.first(size);
    bytes = bytes.subspan(size);
    return block;
  };
  std::map<std::string, std::span<const std::byte>> blocks;
  while (!bytes.empty()) {
    const auto name = next();
    blocks[{reinterpret_cast<const char*>(name.data()), name.size()}] = next();
  }
  return blocks;
}

}  // namespace kith::train

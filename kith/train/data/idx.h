#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace kith::train {

// A file of unsigned bytes in the IDX format of MNIST: a magic number, big-endian sizes, then the bytes.
struct Idx {
  std::vector<std::uint32_t> sizes;
  std::vector<std::uint8_t> bytes;
};

// InputError names the file and what is wrong with it: cannot be read, another format or element type,
// another number of dimensions than wanted, shorter or longer than its sizes say.
Idx read_idx(const std::filesystem::path& file, std::uint32_t dimensions);

}  // namespace kith::train

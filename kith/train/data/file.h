#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace kith::train {

// The whole file. InputError when it cannot be read.
std::vector<std::uint8_t> read_bytes(const std::filesystem::path& file);

}  // namespace kith::train

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace kith::train {

struct MnistFile {
  std::string_view name;
  std::uint64_t bytes;
  std::uint64_t digest;  // FNV-1a of the contents
};

// The four files of MNIST, as published.
std::span<const MnistFile> mnist_files();

// InputError naming the first file in `folder` that is missing or is not the published one, with how to get
// it.
void check_mnist(const std::filesystem::path& folder);

}  // namespace kith::train

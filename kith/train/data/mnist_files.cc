#include "kith/train/data/mnist_files.h"

#include <array>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/file.h"

namespace kith::train {
namespace {

constexpr std::array<MnistFile, 4> kFiles{{{"train-images-idx3-ubyte", 47'040'016, 0xfb6e3c26051525edULL},
                                           {"train-labels-idx1-ubyte", 60'008, 0xeccab7a873f1ddf0ULL},
                                           {"t10k-images-idx3-ubyte", 7'840'016, 0xfe068920776fd4bdULL},
                                           {"t10k-labels-idx1-ubyte", 10'008, 0xcf57c2e698f9fc9bULL}}};

constexpr std::string_view kRemedy =
    "kith data mnist fetches the four files; or put them there yourself, unpacked, under their original "
    "names";

std::uint64_t fnv1a(std::span<const std::uint8_t> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::uint8_t byte : bytes)
    hash = (hash ^ byte) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

std::span<const MnistFile> mnist_files() {
  return kFiles;
}

void check_mnist(const std::filesystem::path& folder) {
  for (const MnistFile& file : kFiles) {
    const std::filesystem::path path = folder / file.name;
    std::error_code problem;
    if (!std::filesystem::is_regular_file(path, problem))
      throw InputError("no such file", path.string(), kRemedy);
    const auto bytes = std::filesystem::file_size(path, problem);
    if (bytes != file.bytes)
      throw InputError(cat("has ", bytes, " bytes, wanted ", file.bytes), path.string(), kRemedy);
    if (fnv1a(read_bytes(path)) != file.digest) {
      throw InputError("is not the published file: its checksum differs", path.string(), kRemedy);
    }
  }
}

}  // namespace kith::train

#include "kith/train/data/file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {

std::vector<std::uint8_t> read_bytes(const std::filesystem::path& file) {
  std::error_code problem;
  if (std::filesystem::is_directory(file, problem))
    throw InputError("is a folder", file.string(), "name a file");
  std::ifstream in(file, std::ios::binary);
  if (!in) throw InputError(cat("cannot be read: ", std::strerror(errno)), file.string());
  std::vector<std::uint8_t> bytes;
  const auto size = std::filesystem::file_size(file, problem);  // none for a pipe
  if (!problem) {
    bytes.resize(size);
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
    bytes.resize(static_cast<std::size_t>(in.gcount()));
  }
  bytes.insert(bytes.end(), std::istreambuf_iterator<char>(in), {});
  if (in.bad()) throw InputError("cannot be read to its end", file.string());
  return bytes;
}

}  // namespace kith::train

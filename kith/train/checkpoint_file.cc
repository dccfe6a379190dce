#include "kith/train/checkpoint_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/checkpoint_folder.h"
#include "kith/train/crc64.h"
#include "kith/train/durable_file.h"

namespace kith::train {
namespace {

constexpr const char* kFormat = "kith-checkpoint";

// An open plain file. Never waits: not for the other end of a FIFO either.
class PlainFile {
 public:
  explicit PlainFile(const std::filesystem::path& path)
      : path_(path), file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    struct stat status {};
    if (file_ < 0 || ::fstat(file_, &status) != 0) {
      const int problem = errno;
      if (file_ >= 0) ::close(file_);
      throw InputError(cat("cannot be read: ", std::strerror(problem)), path.string(),
                       "is it there, and readable?");
    }
    if (!S_ISREG(status.st_mode)) {
      ::close(file_);
      throw InputError("is no plain file", path.string(), "somebody has put something else in its place");
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~PlainFile() { ::close(file_); }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  std::uint64_t size() const { return size_; }

  void read(std::span<std::byte> to) const {
    constexpr std::size_t kAtOnce = std::size_t{1} << 30;
    while (!to.empty()) {
      const ssize_t n = ::read(file_, to.data(), std::min(to.size(), kAtOnce));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0)
        throw InputError(cat("ends ", to.size(), " bytes early"), path_.string(), "the disk is failing");
      to = to.subspan(static_cast<std::size_t>(n));
    }
  }

 private:
  const std::filesystem::path& path_;
  const int file_;
  std::uint64_t size_ = 0;
};

std::int64_t number_in(const Metadata& metadata, const std::string& key, std::int64_t most,
                       const std::string& place) {
  const auto found = metadata.find(key);
  std::int64_t value = -1;
  if (found != metadata.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) value = -1;
  }
  if (value < 0 || value > most)
    throw InputError(cat("__metadata__.", key, " is not an integer from 0 to ", most), place,
                     "it is no worker file of a checkpoint, or damaged");
  return value;
}

WorkerFileHeader header_of(const Metadata& metadata, const std::string& place) {
  const auto format = metadata.find("format");
  if (format == metadata.end() || format->second != kFormat)
    throw InputError(cat("__metadata__.format is not ", kFormat), place,
                     "it is no worker file of a checkpoint");
  constexpr std::int64_t kMostInt = std::numeric_limits<int>::max();
  const std::int64_t version = number_in(metadata, "version", kMostInt, place);
  if (version != kCheckpointVersion)
    throw InputError(cat("has version ", version, ", this kith reads ", kCheckpointVersion), place,
                     "use the kith that wrote it");
  WorkerFileHeader header;
  header.step = number_in(metadata, "step", kMostSteps, place);
  header.rank = static_cast<int>(number_in(metadata, "rank", kMostInt, place));
  header.workers = static_cast<int>(number_in(metadata, "workers", kMostInt, place));
  const auto run = metadata.find("run");
  header.run = run == metadata.end() ? "" : run->second;
  if (!from_hex(header.run))
    throw InputError("__metadata__.run is not 16 hexadecimal digits", place, "the file is damaged");
  return header;
}

}  // namespace

std::string hex_of(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

std::optional<std::uint64_t> from_hex(const std::string& text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (hex_of(value) != text) return {};
  return value;
}

FileDigest write_worker_file(const std::filesystem::path& file, const WorkerFileHeader& header,
                             std::span<const NamedTensor> tensors) {
  const std::string head = safetensors_head(tensors, {{"format", kFormat},
                                                      {"version", std::to_string(kCheckpointVersion)},
                                                      {"step", std::to_string(header.step)},
                                                      {"rank", std::to_string(header.rank)},
                                                      {"workers", std::to_string(header.workers)},
                                                      {"run", header.run}});
  FileDigest digest{file.filename().string(), 0, 0};
  DurableFile out(file);
  const auto write = [&](std::span<const std::byte> bytes) {
    digest.crc64 = crc64(bytes, digest.crc64);
    digest.bytes += bytes.size();
    out.write(bytes);
  };
  write(std::as_bytes(std::span(head)));
  for (const NamedTensor& tensor : tensors)
    write(tensor.bytes);
  out.commit();
  return digest;
}

FileDigest digest_of_file(const std::filesystem::path& path) {
  constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;
  const PlainFile file(path);
  FileDigest digest{path.filename().string(), file.size(), 0};
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(kPiece, file.size())));
  for (std::uint64_t left = file.size(); left > 0; left -= std::min(kPiece, left)) {
    const std::span<std::byte> next(piece.data(), static_cast<std::size_t>(std::min(kPiece, left)));
    file.read(next);
    digest.crc64 = crc64(next, digest.crc64);
  }
  return digest;
}

std::string read_plain_file(const std::filesystem::path& path, std::uint64_t most_bytes) {
  const PlainFile file(path);
  if (file.size() > most_bytes)
    throw InputError(cat("has ", file.size(), " bytes, wanted: at most ", most_bytes), path.string(),
                     "it is damaged");
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(std::as_writable_bytes(std::span(text)));
  return text;
}

WorkerFile read_worker_file(const std::filesystem::path& folder, const FileDigest& digest) {
  WorkerFile result;
  result.path = folder / digest.name;
  const std::string place = result.path.string();
  const PlainFile file(result.path);
  const auto differs = [&](const std::string& problem) {
    return InputError(problem, place, "the file is damaged, or not the one that was saved");
  };
  // Before a byte of it is kept: a manifest that lies about sizes costs no memory.
  if (file.size() != digest.bytes)
    throw differs(cat("has ", file.size(), " bytes, the manifest says ", digest.bytes));
  result.contents.resize(static_cast<std::size_t>(file.size()));
  file.read(result.contents);
  const std::uint64_t crc = crc64(result.contents);
  if (crc != digest.crc64)
    throw differs(cat("has checksum ", hex_of(crc), ", the manifest says ", hex_of(digest.crc64)));
  Safetensors parsed = parse_safetensors(result.contents, place);
  result.header = header_of(parsed.metadata, place);
  result.tensors = std::move(parsed.tensors);
  return result;
}

bool WorkerFile::has(const std::string& name) const {
  return std::ranges::find(tensors, name, &NamedTensor::name) != tensors.end();
}

const NamedTensor& WorkerFile::tensor(const std::string& name) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  if (found != tensors.end()) return *found;
  throw InputError(cat("has no tensor '", name, "'"), path.string(),
                   "it belongs to another model, algorithm or optimizer");
}

}  // namespace kith::train

#include "kith/train/checkpoint_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/checkpoint_folder.h"
#include "kith/train/crc64.h"
#include "kith/train/durable_file.h"

namespace kith::train {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::array<char, 8> kMagic{'K', 'I', 'T', 'H', 'C', 'K', 'P', 'T'};
constexpr std::size_t kTrailerBytes = sizeof(std::uint64_t);

class Writer {
 public:
  explicit Writer(const std::filesystem::path& file) : file_(file) {}

  void bytes(std::span<const std::byte> data) {
    crc_ = crc64(data, crc_);
    count_ += data.size();
    file_.write(data);
  }
  template <class T>
  void number(T value) {
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  void text(const std::string& s) {
    number(static_cast<std::uint64_t>(s.size()));
    bytes(std::as_bytes(std::span(s)));
  }
  FileDigest finish(const std::string& name) {
    const std::uint64_t crc = crc_;
    number(crc);
    file_.commit();
    return {name, count_, crc};
  }

 private:
  DurableFile file_;
  std::uint64_t crc_ = 0;
  std::uint64_t count_ = 0;
};

class Reader {
 public:
  Reader(std::span<const std::byte> data, const std::filesystem::path& file) : data_(data), file_(file) {}

  std::span<const std::byte> bytes(std::uint64_t count) {
    if (count > data_.size()) {
      throw InputError(cat("ends ", count - data_.size(), " bytes early"), file_.string(),
                       "the file is damaged");
    }
    const auto taken = data_.first(static_cast<std::size_t>(count));
    data_ = data_.subspan(taken.size());
    return taken;
  }
  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string text() {
    const auto raw = bytes(number<std::uint64_t>());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

 private:
  std::span<const std::byte> data_;
  const std::filesystem::path& file_;
};

std::vector<std::byte> read_all(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  std::ifstream in(file, std::ios::binary);
  if (error || !in) throw InputError("cannot be read", file.string(), "is it there, and readable?");
  std::vector<std::byte> contents(static_cast<std::size_t>(size));
  if (!in.read(reinterpret_cast<char*>(contents.data()), static_cast<std::streamsize>(size))) {
    throw InputError(cat("gave ", in.gcount(), " of ", size, " bytes"), file.string(), "the disk is failing");
  }
  return contents;
}

void check_magic(std::span<const std::byte> contents, const std::filesystem::path& file) {
  if (contents.size() < kMagic.size() || std::memcmp(contents.data(), kMagic.data(), kMagic.size()) != 0) {
    throw InputError("does not begin with KITHCKPT", file.string(), "it is no worker file of a checkpoint");
  }
}

}  // namespace

FileDigest write_worker_file(const std::filesystem::path& file, const WorkerFileHeader& header,
                             std::span<const Block> blocks) {
  Writer out(file);
  out.bytes(std::as_bytes(std::span(kMagic)));
  out.number(static_cast<std::uint32_t>(kCheckpointVersion));
  out.number(static_cast<std::uint32_t>(header.rank));
  out.number(static_cast<std::uint32_t>(header.workers));
  out.number(static_cast<std::uint32_t>(blocks.size()));
  out.number(header.step);
  for (const Block& block : blocks) {
    out.text(block.name);
    out.number(static_cast<std::uint64_t>(block.bytes.size()));
    out.bytes(block.bytes);
  }
  return out.finish(file.filename().string());
}

WorkerFile read_worker_file(const std::filesystem::path& file) {
  WorkerFile result;
  result.contents = read_all(file);
  const std::span<const std::byte> contents(result.contents);
  check_magic(contents, file);
  Reader in(contents.subspan(kMagic.size()), file);
  const auto version = in.number<std::uint32_t>();
  if (version != kCheckpointVersion) {
    throw InputError(cat("has format version ", version, ", this kith reads ", kCheckpointVersion),
                     file.string(), "use the kith that wrote it");
  }
  result.digest = {file.filename().string(), contents.size(), 0};
  if (contents.size() < kMagic.size() + sizeof(version) + kTrailerBytes) in.bytes(contents.size());
  result.digest.crc64 = crc64(contents.first(contents.size() - kTrailerBytes));
  std::uint64_t stored = 0;
  std::memcpy(&stored, contents.last(kTrailerBytes).data(), kTrailerBytes);
  if (stored != result.digest.crc64) {
    throw InputError(cat("has checksum ", std::hex, result.digest.crc64, ", its last bytes say ", stored),
                     file.string(), "the file is damaged or incomplete");
  }
  result.header.rank = static_cast<int>(in.number<std::uint32_t>());
  result.header.workers = static_cast<int>(in.number<std::uint32_t>());
  const auto count = in.number<std::uint32_t>();
  result.header.step = in.number<std::int64_t>();
  for (std::uint32_t k = 0; k < count; ++k) {
    std::string name = in.text();
    const auto bytes = in.number<std::uint64_t>();
    result.blocks.push_back({std::move(name), in.bytes(bytes)});
  }
  return result;
}

bool WorkerFile::has(const std::string& name) const {
  return std::any_of(blocks.begin(), blocks.end(), [&](const Block& block) { return block.name == name; });
}

std::span<const std::byte> WorkerFile::block(const std::string& name) const {
  for (const Block& candidate : blocks) {
    if (candidate.name == name) return candidate.bytes;
  }
  throw InputError(cat("has no block '", name, "'"), digest.name,
                   "it belongs to another model or algorithm, or the model was cut into other buckets then");
}

}  // namespace kith::train

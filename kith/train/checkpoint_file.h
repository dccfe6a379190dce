#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace kith::train {

// A worker's file: a header, named blocks of bytes, and a CRC-64 of everything before it. Little-endian.

struct Block {
  std::string name;
  std::span<const std::byte> bytes;
};

struct WorkerFileHeader {
  std::int64_t step = 0;
  int rank = 0;
  int workers = 1;
  bool operator==(const WorkerFileHeader&) const = default;
};

struct FileDigest {
  std::string name;  // within its folder
  std::uint64_t bytes = 0;
  std::uint64_t crc64 = 0;
  bool operator==(const FileDigest&) const = default;
};

// Replaces `file` whole or not at all (temp + fsync + rename). Error when the disk says no.
FileDigest write_worker_file(const std::filesystem::path& file, const WorkerFileHeader& header,
                             std::span<const Block> blocks);

struct WorkerFile {
  WorkerFileHeader header;
  FileDigest digest;
  std::vector<std::byte> contents;
  std::vector<Block> blocks;  // into contents

  bool has(const std::string& name) const;
  // InputError when there is no such block.
  std::span<const std::byte> block(const std::string& name) const;
};

// InputError when the file is missing, truncated, of another version, or fails its checksum.
WorkerFile read_worker_file(const std::filesystem::path& file);

}  // namespace kith::train

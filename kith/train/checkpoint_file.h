#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kith/train/safetensors.h"

namespace kith::train {

// A worker's file: its state as named tensors in a safetensors container, which also says whose it is. Its
// size and checksum are in the manifest (checkpoint_folder.h).

struct WorkerFileHeader {
  std::int64_t step = 0;
  int rank = 0;
  int workers = 1;
  std::string run;  // of the run that saved it: 16 hexadecimal digits
  bool operator==(const WorkerFileHeader&) const = default;
};

struct FileDigest {
  std::string name;  // within its folder
  std::uint64_t bytes = 0;
  std::uint64_t crc64 = 0;
  // Where it was written, when the files of a checkpoint do not all lie in one folder.
  std::string host = {};
  std::string folder = {};
  bool operator==(const FileDigest&) const = default;
};

// Replaces `file` whole or not at all (temp + fsync + rename). Error when the disk says no.
FileDigest write_worker_file(const std::filesystem::path& file, const WorkerFileHeader& header,
                             std::span<const NamedTensor> tensors);

struct WorkerFile {
  WorkerFileHeader header;
  std::filesystem::path path;
  std::vector<std::byte> contents;
  std::vector<NamedTensor> tensors;  // into contents

  bool has(const std::string& name) const;
  // InputError when there is no such tensor.
  const NamedTensor& tensor(const std::string& name) const;
};

// InputError when the file is missing, no plain file, not the one that the digest is of, of another version,
// or holds what no worker's file can hold.
WorkerFile read_worker_file(const std::filesystem::path& folder, const FileDigest& digest);

// Of a plain file, read to its end. InputError when it cannot be.
FileDigest digest_of_file(const std::filesystem::path& file);

// A small plain file, such as a manifest, as text. InputError when it cannot be read, is no plain file or is
// longer than `most_bytes`.
std::string read_plain_file(const std::filesystem::path& file, std::uint64_t most_bytes);

// 16 hexadecimal digits, and back; nothing for anything else.
std::string hex_of(std::uint64_t value);
std::optional<std::uint64_t> from_hex(const std::string& text);

}  // namespace kith::train

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace kith::train {

// A file that appears whole or not at all: written aside, synced, renamed. Destroyed before commit() it
// leaves nothing.
class DurableFile {
 public:
  // Error, here and below, names the file and the system's reason.
  explicit DurableFile(std::filesystem::path target);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // After this the target, and its entry in the folder, survive a power cut.
  void commit();

 private:
  const std::filesystem::path target_;
  const std::filesystem::path temporary_;
  int file_ = -1;
};

// Whatever was created, renamed or removed in the folder is durable afterwards.
void sync_folder(const std::filesystem::path& folder);

}  // namespace kith::train

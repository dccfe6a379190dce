#pragma once

#include <filesystem>

namespace kith::train {

// One process at a time works in a run folder. Held from construction to destruction; the kernel lets go of
// it when the process dies. On a file system that has no locks everybody gets one.
class RunLock {
 public:
  static constexpr const char* kFileName = "lock";

  // InputError names the holder: its process, its machine, and since when. Error when the file cannot be
  // made.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace kith::train

#pragma once

#include <filesystem>
#include <string>

#include "kith/comm/store.h"

namespace kith::comm {

// For workers that are processes sharing a file system: a folder with one file per key. A value appears whole
// or not at all (written aside, then renamed); changes exclude each other by flock on the file ".lock".
// Whoever made the folder removes it.
class FileStore final : public Store {
 public:
  // Creates the folder if need be. Error when that is not possible.
  explicit FileStore(std::filesystem::path folder);

  void set(std::string_view key, std::string_view value) override;
  std::optional<std::string> get(std::string_view key) override;
  std::optional<std::string> wait(std::string_view key, Deadline deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  std::string set_once(std::string_view key, std::string_view value) override;

 private:
  std::filesystem::path file_of(std::string_view key) const;
  // REQUIRES: the lock is held.
  void replace(std::string_view key, std::string_view value);

  const std::filesystem::path folder_;
};

}  // namespace kith::comm

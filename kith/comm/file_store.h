#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "kith/comm/will_store.h"

namespace kith::comm {

// For workers that are processes sharing a file system: a folder with one file per key. A value appears whole
// or not at all (written aside, then renamed); changes exclude each other by flock on the file ".lock".
// Whoever made the folder removes it.
class FileStore final : public WillStore {
 public:
  // Creates the folder if need be. Error when that is not possible.
  explicit FileStore(std::filesystem::path folder);
  // Carries out the will, if there is one.
  ~FileStore() override;

  // Only who waits for a key of the list, on the machine of the process that died, sees its will come true.
  // By one thread at a time.
  void leave_will(std::string_view list, std::string_view value) override;
  void withdraw_will() override;

 private:
  void set_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> get_for(std::string_view key, std::stop_token stop) override;
  std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) override;
  std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline, std::stop_token stop) override;
  std::filesystem::path file_of(std::string_view key, char kind = 'k') const;
  // REQUIRES: the lock is held.
  void replace(std::string_view key, std::string_view value);

  struct Will {
    std::string list, value;
    std::filesystem::path file;
  };

  // The name of the file of this store's will to that list; empty: it has none.
  std::string own_will(std::string_view list);

  const std::filesystem::path folder_;
  std::mutex mutex_;  // guards will_, which who waits looks at
  std::optional<Will> will_;
};

}  // namespace kith::comm

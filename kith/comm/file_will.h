#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>

#include "kith/comm/shm/descriptor.h"

namespace kith::comm {

// Last wills in a folder, one file each: what is to be known when the process that wrote it has ended. Only
// processes of the same machine (and the same space of process numbers) are watched, by the kernel.

// Writes one for this process. Error when it cannot be written. Returns the file; removing it withdraws it.
std::filesystem::path write_will(const std::filesystem::path& folder, std::string_view value);

// Who waits for a will to come true. One thread at a time.
class WillWatch {
 public:
  explicit WillWatch(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The value of one whose process has ended.
  std::optional<std::string> due();
  // Files that become readable when it is worth while to ask again.
  std::vector<pollfd> files() const;

 private:
  struct Will {
    std::string value;
    shm::Descriptor process;
  };

  const std::filesystem::path folder_;
  std::map<std::string, Will> wills_;  // by the file's name
};

}  // namespace kith::comm

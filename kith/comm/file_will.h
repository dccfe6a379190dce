#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>
#include <time.h>

#include "kith/base/clock.h"
#include "kith/comm/shm/descriptor.h"

namespace kith::comm {

// Last wills in a folder, one file each: what is to be known when the process that wrote it has ended. Only
// processes of the same machine (and the same space of process numbers) are watched, by the kernel.

// Writes one for this process. Error when it cannot be written. Returns the file; removing it withdraws it.
std::filesystem::path write_will(const std::filesystem::path& folder, std::string_view value);

// Who waits for a will to come true. One thread at a time.
//
// Who has left a will itself watches over the next few in the order of their names, so that a process holds
// and asks as much among a thousand as among ten: when one of these has ended and its will is carried out,
// the ring closes. Who has left none watches over all. While many come, each looks at the folder the more
// rarely the more they are.
class WillWatch {
 public:
  explicit WillWatch(std::filesystem::path folder) : folder_(std::move(folder)) {}

  struct Due {
    std::string value;
    std::filesystem::path file;  // to be removed once the will is carried out
  };
  // One whose process has ended. `own`: the name of this process's will in the folder; empty: it has none.
  std::optional<Due> due(const std::string& own);
  // Files that become readable when it is worth while to ask again.
  std::vector<pollfd> files() const;

  static constexpr std::size_t kWatched = 4;  // by who has left a will itself

 private:
  struct Will {
    std::string value;
    shm::Descriptor process;
  };

  // Whether the folder may hold other files than when this was asked last.
  bool changed();
  void choose(const std::string& own);

  const std::filesystem::path folder_;
  Clock::Time next_choice_{};          // no earlier, however often the folder changes
  timespec seen_{};                    // when the folder was changed, as it was looked at
  bool settled_ = false;               // a change since would show
  std::map<std::string, Will> wills_;  // that are watched, by the file's name
};

}  // namespace kith::comm

#include "cli/room.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <sys/resource.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kOtherFiles = 64;  // standard ones, libraries', a store's

std::int64_t available_memory() {
  std::ifstream lines("/proc/meminfo");
  for (std::string word; lines >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "MemAvailable:" && lines >> kilobytes) return kilobytes * 1024;
  }
  return kNoLimit;
}

// What the container may still take; files hold a number, or "max".
std::int64_t left_to_the_container() {
  std::int64_t most = 0, now = 0;
  if (!(std::ifstream("/sys/fs/cgroup/memory.max") >> most)) return kNoLimit;
  if (!(std::ifstream("/sys/fs/cgroup/memory.current") >> now)) return kNoLimit;
  return std::max<std::int64_t>(0, most - now);
}

}  // namespace

Room room_here() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_NOFILE, &files);
  return {.memory_bytes = std::min(available_memory(), left_to_the_container()),
          .files = static_cast<std::int64_t>(std::min<rlim_t>(files.rlim_cur, kNoLimit))};
}

void require_room(int workers, const WorkerNeeds& needs, const Room& room, std::string_view place) {
  const std::int64_t memory = workers * needs.memory_bytes;
  if (memory > room.memory_bytes) {
    throw InputError(
        cat(workers, " workers of at least ", human_bytes(static_cast<double>(needs.memory_bytes)),
            " each need ", human_bytes(static_cast<double>(memory)), " of memory, and ",
            human_bytes(static_cast<double>(room.memory_bytes)), " are free"),
        place, "fewer workers here, or more machines (kith launch --hosts)");
  }
  const std::int64_t files = workers * needs.files + kOtherFiles;
  if (needs.files > 0 && files > room.files) {
    throw InputError(cat(workers, " workers need ", files, " open files, and ", room.files, " are allowed"),
                     place, cat("ulimit -n ", files, ", or fewer workers"));
  }
}

}  // namespace kith::cli

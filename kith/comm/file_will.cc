#include "kith/comm/file_will.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>

#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/text.h"

namespace kith::comm {
namespace {

namespace fs = std::filesystem;

// Between two looks at a folder of wills: to list one takes about a microsecond for each.
constexpr auto kPauseForEach = std::chrono::milliseconds(1);

// Where a process number means the same.
std::string number_space() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  return ::stat("/proc/self/ns/pid", &space) == 0 ? cat(boot, ":", space.st_ino) : boot;
}

// Wills of one such place have names that begin alike.
std::string tag_of(const std::string& space) {
  return hex(sha256(space)).substr(0, 12) + "-";
}

// The names of the wills that can be watched here, in order.
std::vector<std::string> names_in(const fs::path& folder, const std::string& tag) {
  std::vector<std::string> names;
  DIR* const open = ::opendir(folder.c_str());
  if (open == nullptr) return names;
  while (const dirent* const entry = ::readdir(open))
    if (std::string_view(entry->d_name).starts_with(tag)) names.emplace_back(entry->d_name);
  ::closedir(open);
  std::ranges::sort(names);
  return names;
}

struct Text {
  std::string space;
  pid_t process = 0;
  std::string value;
};

// SPACE, PROCESS and VALUE on a line each; nothing when it is not that.
std::optional<Text> read_will(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(in), {});
  const auto first = all.find('\n');
  const auto second = first == std::string::npos ? first : all.find('\n', first + 1);
  if (second == std::string::npos) return std::nullopt;
  Text text{all.substr(0, first), 0, all.substr(second + 1)};
  const auto [end, status] = std::from_chars(all.data() + first + 1, all.data() + second, text.process);
  if (status != std::errc{} || end != all.data() + second || text.process <= 0) return std::nullopt;
  return text;
}

}  // namespace

fs::path write_will(const fs::path& folder, std::string_view value) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  const std::string space = number_space();
  const std::string name = tag_of(space) + hex(random_bytes(8));
  const fs::path aside = folder / ("." + name), file = folder / name;
  std::ofstream out(aside, std::ios::binary);
  out << space << "\n" << ::getpid() << "\n" << value;
  out.close();
  if (out) fs::rename(aside, file, failure);
  if (!out || failure)
    throw Error("cannot be written", cat("store ", file.string()),
                "check the free space and the permissions");
  return file;
}

// The time of a change is as coarse as the kernel's tick: what came right after one may bear the same.
bool WillWatch::changed() {
  constexpr double kCoarse = 0.1;  // seconds
  struct stat folder {};
  if (::stat(folder_.c_str(), &folder) != 0) return !wills_.empty();
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const timespec at = folder.st_mtim;
  const bool same = settled_ && at.tv_sec == seen_.tv_sec && at.tv_nsec == seen_.tv_nsec;
  const auto since =
      static_cast<double>(now.tv_sec - at.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - at.tv_nsec);
  settled_ = since > kCoarse;
  seen_ = at;
  return !same;
}

void WillWatch::choose(const std::string& own) {
  const std::string space = number_space();
  std::vector<std::string> names = names_in(folder_, tag_of(space));
  next_choice_ = SteadyClock().now() + names.size() * kPauseForEach;
  if (const auto mine = std::ranges::find(names, own); mine != names.end()) {
    std::rotate(names.begin(), mine + 1, names.end());
    names.pop_back();
    names.resize(std::min(names.size(), kWatched));
  }
  std::erase_if(wills_,
                [&](const auto& will) { return std::ranges::find(names, will.first) == names.end(); });
  for (const std::string& name : names) {
    if (wills_.contains(name)) continue;
    const auto text = read_will(folder_ / name);
    if (!text || text->space != space) continue;
    shm::Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, text->process, 0)));
    if (!process && errno != ESRCH) continue;  // a kernel that cannot tell
    wills_.emplace(name, Will{text->value, std::move(process)});
  }
}

std::optional<WillWatch::Due> WillWatch::due(const std::string& own) {
  if (SteadyClock().now() >= next_choice_ && changed()) choose(own);
  std::error_code none;
  std::vector<pollfd> processes = files();
  ::poll(processes.data(), processes.size(), 0);
  auto process = processes.begin();
  for (auto will = wills_.begin(); will != wills_.end(); ++process) {
    const bool ended = process->fd < 0 || process->revents != 0;
    if (!ended) {
      ++will;
      continue;
    }
    Due found{will->second.value, folder_ / will->first};
    will = wills_.erase(will);
    // One that is gone was withdrawn in order, perhaps after it was read here, or carried out by another.
    if (fs::exists(found.file, none)) return found;
  }
  return std::nullopt;
}

std::vector<pollfd> WillWatch::files() const {
  std::vector<pollfd> files;
  for (const auto& [name, will] : wills_)
    files.push_back({will.process.get(), POLLIN, 0});
  return files;
}

}  // namespace kith::comm

#include "kith/comm/file_will.h"

#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/text.h"

namespace kith::comm {
namespace {

namespace fs = std::filesystem;

// Where a process number means the same.
std::string number_space() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  return ::stat("/proc/self/ns/pid", &space) == 0 ? cat(boot, ":", space.st_ino) : boot;
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
  const std::string name = hex(random_bytes(8));
  const fs::path aside = folder / ("." + name), file = folder / name;
  std::ofstream out(aside, std::ios::binary);
  out << number_space() << "\n" << ::getpid() << "\n" << value;
  out.close();
  if (out) fs::rename(aside, file, failure);
  if (!out || failure)
    throw Error("cannot be written", cat("store ", file.string()),
                "check the free space and the permissions");
  return file;
}

std::optional<std::string> WillWatch::due() {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder_, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || wills_.contains(name)) continue;
    const auto text = read_will(entry.path());
    if (!text || text->space != number_space()) continue;
    shm::Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, text->process, 0)));
    if (!process && errno != ESRCH) continue;  // a kernel that cannot tell
    wills_.emplace(name, Will{text->value, std::move(process)});
  }
  for (auto will = wills_.begin(); will != wills_.end();) {
    pollfd file{will->second.process.get(), POLLIN, 0};
    const bool ended = file.fd < 0 || ::poll(&file, 1, 0) > 0;
    if (!ended) {
      ++will;
      continue;
    }
    const std::string value = will->second.value;
    // Withdrawn in order before the end, perhaps after it was read here.
    const bool withdrawn = !fs::exists(folder_ / will->first, none);
    will = wills_.erase(will);
    if (!withdrawn) return value;
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

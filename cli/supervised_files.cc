#include "cli/supervised_files.h"

#include <cstring>

#include <fcntl.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

constexpr std::size_t kLongestLine = 65536;

}  // namespace

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(cat("cannot make a pipe: ", std::strerror(errno)), "pipe");
  return {File(ends[0]), File(ends[1])};
}

void Heard::read() {
  std::array<char, 16384> buffer;
  pollfd file{fd, POLLIN, 0};
  while (!over && ::poll(&file, 1, 0) > 0) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got > 0) {
      take(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
    } else if (got == 0 || errno != EINTR) {
      finish();
    }
  }
}

void Heard::finish() {
  if (std::exchange(over, true)) return;
  if (!partial.empty()) on_line(std::exchange(partial, {}));
  owned.reset();
  if (on_end) on_end();
}

void Heard::take(std::string_view bytes) {
  partial += bytes;
  std::size_t begin = 0;
  for (auto end = partial.find('\n'); end != std::string::npos; end = partial.find('\n', begin)) {
    on_line(std::string_view(partial).substr(begin, end - begin));
    begin = end + 1;
  }
  partial.erase(0, begin);
  if (partial.size() > kLongestLine) on_line(std::exchange(partial, {}));
}

}  // namespace kith::cli

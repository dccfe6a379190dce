#include "kith/base/log.h"

#include <array>
#include <utility>

#include <unistd.h>

namespace kith {

StderrLog::StderrLog(std::string prefix, LogLevel least) : prefix_(std::move(prefix)), least_(least) {}

void StderrLog::write(LogLevel level, std::string_view line) {
  if (level < least_) return;
  constexpr std::array<std::string_view, 4> kNames{" debug: ", ": ", " warning: ", " error: "};
  std::string text = prefix_;
  text.append(kNames[static_cast<std::size_t>(level)]).append(line).append("\n");
  // A log line that cannot be written has nowhere to be reported.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace kith

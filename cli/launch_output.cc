#include "cli/launch_output.h"

#include <iostream>

#include <unistd.h>

#include "kith/base/text.h"

namespace kith::cli {
namespace {

constexpr std::size_t kLastLines = 20;

}  // namespace

void LaunchOutput::line(const std::string& tag, Stream stream, std::string_view text) {
  const std::string whole = cat("[", tag, "] ", text, "\n");
  // One write each, so that lines stay whole; an output that is closed has nobody to tell.
  [[maybe_unused]] const ssize_t written =
      ::write(stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO, whole.data(), whole.size());
  std::deque<std::string>& last = last_[tag];
  last.push_back(whole);
  if (last.size() > kLastLines) last.pop_front();
}

void LaunchOutput::ended(const std::string& name, const std::string& tag, const Ending& ending) {
  if (ending.code == 0) return;
  if (!first_) first_ = Failure{name, tag, ending.text};
  if (deaths_ == OnDeath::end) return;
  lost_.push_back(name);
  std::cerr << "kith launch: " << name << " " << ending.text << std::endl;
}

void LaunchOutput::finish(int code) const {
  if (!first_) return;
  if (code == 0) {
    std::cerr << "kith launch: lost " << kith::join(lost_) << "; the others finished\n";
    return;
  }
  const auto last = last_.find(first_->tag);
  std::cerr << "kith launch: " << first_->name << " " << first_->text
            << (last == last_.end() ? "" : "; its last lines:") << "\n";
  if (last == last_.end()) return;
  for (const std::string& line : last->second)
    std::cerr << line;
}

}  // namespace kith::cli

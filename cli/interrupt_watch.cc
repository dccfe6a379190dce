#include "cli/interrupt_watch.h"

#include <cstdlib>
#include <iostream>
#include <optional>
#include <utility>

#include "cli/run.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

using SteadyTime = std::chrono::steady_clock;
using train::Ending;

// One Ctrl-C may come by two ways, from the terminal and from a launcher.
constexpr auto kTogether = std::chrono::milliseconds(500);

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

double in_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

InterruptWatch::InterruptWatch(std::string name) : name_(std::move(name)) {
  const sigset_t set = watched();
  ::pthread_sigmask(SIG_BLOCK, &set, &previous_);
  thread_ = std::thread([this] { watch(); });
}

InterruptWatch::~InterruptWatch() {
  over_ = true;
  thread_.join();
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void InterruptWatch::begin(std::chrono::milliseconds sigterm_limit) {
  sigterm_limit_ = sigterm_limit;
}

void InterruptWatch::say(const std::string& text) const {
  if (!name_.empty()) std::cerr << cat(name_, ": ", text, "\n") << std::flush;
}

void InterruptWatch::watch() {
  const sigset_t set = watched();
  const timespec pause{0, 50'000'000};
  std::optional<SteadyTime::time_point> first, end;
  while (!over_) {
    const int signal = ::sigtimedwait(&set, nullptr, &pause);
    const auto now = SteadyTime::now();
    if (end && now >= *end) {
      say(cat("could not save within ", in_seconds(sigterm_limit_), " s, and ends"));
      std::_Exit(kTerminated);
    }
    if (signal != SIGINT && signal != SIGTERM) continue;
    const std::chrono::milliseconds limit = sigterm_limit_;
    if (limit.count() == 0) std::_Exit(signal == SIGINT ? kInterrupted : kTerminated);
    if (signal == SIGINT && first && now - *first > kTogether) std::_Exit(kInterrupted);
    if (!first) first = now;
    if (signal == SIGTERM && !end) {
      say(sigterm_text(limit));
      end = now + limit;
    }
    if (asked_ == Ending::finished) asked_ = signal == SIGINT ? Ending::interrupted : Ending::terminated;
  }
}

std::string sigterm_text(std::chrono::milliseconds limit) {
  return cat("SIGTERM: saves at a common step and ends, within ", in_seconds(limit), " s");
}

int code_of(Ending ending) {
  if (ending == Ending::interrupted) return kInterrupted;
  return ending == Ending::terminated ? kTerminated : 0;
}

}  // namespace kith::cli

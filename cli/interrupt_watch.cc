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
  sigaddset(&set, SIGUSR1);
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
  // How the run ended is known: who asks once more must not turn that into a death.
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGUSR1, SIG_IGN);
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void InterruptWatch::begin(const OnSigterm& on_sigterm) {
  const std::lock_guard lock(mutex_);
  on_sigterm_ = on_sigterm;
}

void InterruptWatch::say(const std::string& text) const {
  if (!name_.empty()) std::cerr << cat(name_, ": ", text, "\n") << std::flush;
}

void InterruptWatch::watch() {
  const sigset_t set = watched();
  const timespec pause{0, 50'000'000};
  std::optional<SteadyTime::time_point> first, end;
  while (!over_) {
    siginfo_t sent{};
    const int signal = ::sigtimedwait(&set, &sent, &pause);
    const auto now = SteadyTime::now();
    const OnSigterm on_sigterm = [this] {
      const std::lock_guard lock(mutex_);
      return on_sigterm_;
    }();
    const std::chrono::milliseconds limit = on_sigterm.limit;
    if (end && now >= *end) {
      say(cat("could not save within ", in_seconds(limit), " s, and ends"));
      std::_Exit(kTerminated);
    }
    if (signal == SIGUSR1 && asked_ == Ending::finished) {
      say("leaves, as kith scale asks");
      asked_ = Ending::left;
    }
    if (signal != SIGINT && signal != SIGTERM) continue;
    if (limit.count() == 0) std::_Exit(signal == SIGINT ? kInterrupted : kTerminated);
    if (signal == SIGINT && first && now - *first > kTogether) std::_Exit(kInterrupted);
    if (!first) first = now;
    const bool leaves = signal == SIGTERM && on_sigterm.leaves && sent.si_pid != on_sigterm.starter;
    if (signal == SIGTERM && !end) {
      say(leaves ? cat("SIGTERM: leaves, within ", in_seconds(limit), " s") : sigterm_text(limit));
      end = now + limit;
    }
    const Ending asked = leaves ? Ending::left : signal == SIGINT ? Ending::interrupted : Ending::terminated;
    // Everybody's end comes before one's own.
    if (asked_ == Ending::finished || asked_ == Ending::left) asked_ = asked;
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

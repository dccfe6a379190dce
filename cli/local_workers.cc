#include "cli/local_workers.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <system_error>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

constexpr auto kGrace = std::chrono::seconds(8);  // after a failure, for the others to end by themselves
constexpr auto kPause =
    std::chrono::milliseconds(100);  // between looks at the clock; an ending worker is noticed at once

int number_from(const char* variable, const std::string& text) {
  int value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size() || value < 0) {
    throw InputError(cat("'", text, "' is not a number"), variable,
                     "it is set by kith for its own workers; unset it");
  }
  return value;
}

// Ctrl-C and kill are for the workers to act on: this process passes the signal on and waits for them to save
// and leave. Signals are blocked here and fetched between waits, so nothing happens in a handler.
class HeldSignals {
 public:
  HeldSignals() {
    ::sigemptyset(&held_);
    ::sigaddset(&held_, SIGINT);
    ::sigaddset(&held_, SIGTERM);
    ::sigaddset(&held_, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &held_, &previous_);
  }
  ~HeldSignals() { restore(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // Also for a child, before it becomes another program.
  void restore() const { ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }

  // Waits for a signal, at most that long; 0 when none came.
  int next(std::chrono::milliseconds longest) const {
    const timespec timeout{longest.count() / 1000, longest.count() % 1000 * 1'000'000};
    const int signal = ::sigtimedwait(&held_, nullptr, &timeout);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t held_{};
  sigset_t previous_{};
};

struct Start {
  int worker = 0;
  int workers = 0;
  std::string store;
  const std::vector<std::string>& arguments;
  const HeldSignals& signals;
};

pid_t start(const Start& of) {
  const auto& [worker, workers, store, arguments, signals] = of;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw Error(cat("cannot start worker ", worker, ": ", std::strerror(errno)), "fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) std::_Exit(1);  // the parent died before it could be watched
  signals.restore();
  ::setenv("KITH_WORKER", std::to_string(worker).c_str(), 1);
  ::setenv("KITH_WORKERS", std::to_string(workers).c_str(), 1);
  ::setenv("KITH_STORE", store.c_str(), 1);
  std::string program = "kith";
  std::vector<char*> argv{program.data()};
  std::vector<std::string> copies = arguments;
  for (std::string& copy : copies)
    argv.push_back(copy.data());
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());
  std::cerr << "kith: worker " << worker << " cannot be started: " << std::strerror(errno) << "\n";
  std::_Exit(127);
}

std::string describe(int status) {
  if (WIFSIGNALED(status))
    return cat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  return cat("ended with exit code ", WEXITSTATUS(status));
}

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class Workers {
 public:
  ~Workers() {
    signal_all(SIGKILL);
    for (const auto& [pid, worker] : running_)
      ::waitpid(pid, nullptr, 0);
  }

  void add(pid_t pid, int worker) { running_[pid] = worker; }

  int wait(const HeldSignals& signals) {
    using Clock = std::chrono::steady_clock;
    int first_failure = 0;
    Clock::time_point end{};
    bool asked = false;
    while (!running_.empty()) {
      int status = 0;
      if (const pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0) {
        const int worker = running_.at(pid);
        running_.erase(pid);
        if (code_of(status) != 0 && first_failure == 0) {
          first_failure = code_of(status);
          end = Clock::now() + kGrace;
          if (first_failure != 130) std::cerr << "kith: worker " << worker << " " << describe(status) << "\n";
        }
        continue;
      }
      if (first_failure && Clock::now() > end) {
        signal_all(asked ? SIGKILL : SIGTERM);
        asked = true;
        end = Clock::now() + kGrace;
      }
      const int signal = signals.next(kPause);
      if (signal == SIGINT || signal == SIGTERM) signal_all(signal);
    }
    return first_failure;
  }

 private:
  void signal_all(int signal) {
    for (const auto& [pid, worker] : running_)
      ::kill(pid, signal);
  }

  std::map<pid_t, int> running_;
};

}  // namespace

std::optional<LocalPlace> local_place() {
  const char* const worker = std::getenv("KITH_WORKER");
  const char* const workers = std::getenv("KITH_WORKERS");
  const char* const store = std::getenv("KITH_STORE");
  if (!worker && !workers && !store) return std::nullopt;
  if (!worker || !workers || !store) {
    throw InputError(cat("only some are set: KITH_WORKER=", worker ? worker : "(unset)", " KITH_WORKERS=",
                         workers ? workers : "(unset)", " KITH_STORE=", store ? store : "(unset)"),
                     "environment", "unset all three, or set all three");
  }
  LocalPlace place{number_from("KITH_WORKER", worker), number_from("KITH_WORKERS", workers), store};
  if (place.worker >= place.workers) {
    throw InputError(cat("KITH_WORKER=", place.worker, " with KITH_WORKERS=", place.workers), "environment",
                     "a worker's number is below the number of workers");
  }
  return place;
}

int run_local_workers(int workers, const std::vector<std::string>& arguments) {
  const TempFolder folder("kith");  // where the workers meet
  const HeldSignals signals;
  Workers running;
  std::cout.flush();
  for (int worker = 0; worker < workers; ++worker) {
    running.add(start({worker, workers, folder.path(), arguments, signals}), worker);
  }
  return running.wait(signals);
}

}  // namespace kith::cli

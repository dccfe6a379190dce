#include "cli/local_workers.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <system_error>
#include <thread>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

constexpr auto kGrace = std::chrono::seconds(8);  // after a failure, for the others to end by themselves
constexpr auto kPause = std::chrono::milliseconds(20);

int number_from(const char* variable, const std::string& text) {
  int value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size() || value < 0) {
    throw InputError(cat("'", text, "' is not a number"), variable,
                     "it is set by kith for its own workers; unset it");
  }
  return value;
}

// The folder the workers meet in, gone afterwards.
class MeetingFolder {
 public:
  MeetingFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kith-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(cat("cannot create a folder: ", std::strerror(errno)), name,
                  "set TMPDIR to a writable folder");
    }
    path_ = name;
  }
  ~MeetingFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  MeetingFolder(const MeetingFolder&) = delete;
  MeetingFolder& operator=(const MeetingFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Ctrl-C reaches the workers through the terminal; this process only waits for them to save and leave.
class WaitThroughInterrupts {
 public:
  WaitThroughInterrupts() : previous_(std::signal(SIGINT, SIG_IGN)) {}
  ~WaitThroughInterrupts() { std::signal(SIGINT, previous_); }
  WaitThroughInterrupts(const WaitThroughInterrupts&) = delete;
  WaitThroughInterrupts& operator=(const WaitThroughInterrupts&) = delete;

 private:
  void (*previous_)(int);
};

pid_t start(int worker, int workers, const std::string& store, const std::vector<std::string>& arguments) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw Error(cat("cannot start worker ", worker, ": ", std::strerror(errno)), "fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) std::_Exit(1);  // the parent died before it could be watched
  std::signal(SIGINT, SIG_DFL);
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

  int wait() {
    using Clock = std::chrono::steady_clock;
    int first_failure = 0;
    Clock::time_point end{};
    bool asked = false;
    while (!running_.empty()) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, first_failure ? WNOHANG : 0);
      if (pid > 0) {
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
      std::this_thread::sleep_for(kPause);
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
  const MeetingFolder folder;
  const WaitThroughInterrupts guard;
  Workers running;
  std::cout.flush();
  for (int worker = 0; worker < workers; ++worker) {
    running.add(start(worker, workers, folder.path(), arguments), worker);
  }
  return running.wait();
}

}  // namespace kith::cli

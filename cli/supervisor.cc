#include "cli/supervisor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <list>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

using SteadyTime = std::chrono::steady_clock;

constexpr auto kKillAfter = std::chrono::seconds(8);        // SIGTERM, to end in order
constexpr auto kSecondInterrupt = std::chrono::seconds(1);  // until nobody is left
constexpr auto kTogether = std::chrono::milliseconds(500);  // one Ctrl-C may come by two ways
constexpr std::size_t kLongestLine = 65536;

class File {
 public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~File() { reset(); }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

struct Pipe {
  File read, write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(cat("cannot make a pipe: ", std::strerror(errno)), "pipe");
  return {File(ends[0]), File(ends[1])};
}

// Ctrl-C and kill are for the children to act on. Signals are blocked here and read from a file between
// waits, so nothing happens in a handler.
class HeldSignals {
 public:
  HeldSignals() {
    ::sigemptyset(&held_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE})
      ::sigaddset(&held_, signal);
    ::pthread_sigmask(SIG_BLOCK, &held_, &previous_);
    file_ = File(::signalfd(-1, &held_, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~HeldSignals() { restore(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // Also for a child, before it becomes another program.
  void restore() const { ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  int file() const { return file_.get(); }
  // The next one that came; 0 when there is none.
  int next() const {
    signalfd_siginfo info{};
    return ::read(file(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t held_{};
  sigset_t previous_{};
  File file_;
};

// A file that is heard line by line.
struct Heard {
  int fd = -1;
  std::function<void(std::string_view)> on_line;
  std::function<void()> on_end;
  File owned = {};
  std::string partial = {};
  bool over = false;

  // Everything that is there now. Asks before each read, because a file that does not block may be one with
  // an output that has to (sshd gives a command one socket for both).
  void read() {
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
  void finish() {
    if (std::exchange(over, true)) return;
    if (!partial.empty()) on_line(std::exchange(partial, {}));
    owned.reset();
    if (on_end) on_end();
  }

 private:
  void take(std::string_view bytes) {
    partial += bytes;
    std::size_t begin = 0;
    for (auto end = partial.find('\n'); end != std::string::npos; end = partial.find('\n', begin)) {
      on_line(std::string_view(partial).substr(begin, end - begin));
      begin = end + 1;
    }
    partial.erase(0, begin);
    if (partial.size() > kLongestLine) on_line(std::exchange(partial, {}));
  }
};

Ending ending_of(int status) {
  if (WIFSIGNALED(status)) {
    return {128 + WTERMSIG(status),
            cat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")")};
  }
  return {WEXITSTATUS(status), cat("ended with exit code ", WEXITSTATUS(status))};
}

}  // namespace

class Supervisor::Impl {
 public:
  explicit Impl(SupervisorOptions options) : options_(std::move(options)) {}
  ~Impl() {
    kill_all(SIGKILL);
    for (Child& child : children_)
      if (child.pid > 0) ::waitpid(child.pid, nullptr, 0);
  }

  void start(ChildOptions options) {
    Child child;
    child.grouped = options.on_line != nullptr;
    child.on_end = std::move(options.on_end);
    Pipe out, err, in;
    if (child.grouped) out = make_pipe(), err = make_pipe();
    if (options.remote_input) in = make_pipe();
    std::cout.flush();
    const pid_t parent = ::getpid();
    child.pid = ::fork();
    if (child.pid < 0)
      throw Error(cat("cannot start '", options.command.front(), "': ", std::strerror(errno)), "fork");
    if (child.pid == 0) become(options, parent, out.write.get(), err.write.get(), in.read.get());
    if (child.grouped) {
      ::setpgid(child.pid, child.pid);  // here too: whoever comes first
      child.files = {hear_child(std::move(out.read), Stream::out, options.on_line),
                     hear_child(std::move(err.read), Stream::err, options.on_line)};
    }
    if (options.remote_input) {
      child.input = std::move(in.write);
      tell(child, *options.remote_input);
    }
    children_.push_back(std::move(child));
  }

  Heard* hear(int fd, std::function<void(std::string_view)> on_line, std::function<void()> on_end) {
    return &heard_.emplace_back(Heard{fd, std::move(on_line), std::move(on_end)});
  }

  void note_failure(int code) {
    if (first_failure_ != 0) return;
    first_failure_ = code;
    if (!asked_ && !options_.independent) end_by(options_.ask_after);
  }

  // What a signal to this process means for everybody.
  void pass_on(int signal) {
    signal_all(signal);
    const auto now = SteadyTime::now();
    if (signal == SIGINT && !interrupted_) interrupted_ = now;
    if (signal == SIGINT && now - *interrupted_ > kTogether) {
      kill_after(kSecondInterrupt, 128 + SIGINT);
    } else if (signal == SIGTERM && options_.sigterm_limit) {
      kill_after(*options_.sigterm_limit, 128 + SIGTERM);
    }
    if (options_.on_signal) options_.on_signal(signal);
  }

  void signal_all(int signal) {
    for (Child& child : children_) {
      if (child.pid <= 0) continue;
      if (child.input.get() >= 0) {
        tell(child, cat("signal ", signal, "\n"));
      } else {
        ::kill(child.grouped ? -child.pid : child.pid, signal);
      }
    }
  }

  void end_all() {
    signal_all(SIGTERM);
    kill_after(kKillAfter, 128 + SIGTERM);
  }

  int wait() {
    while (std::ranges::any_of(children_, [](const Child& child) { return child.pid > 0; })) {
      sleep();
      for (Heard& heard : heard_)
        heard.read();
      while (const int signal = signals_.next())
        if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) pass_on(signal);
      reap();
      if (end_ && SteadyTime::now() >= *end_) {
        if (std::exchange(asked_, true)) {
          kill_all(SIGKILL);
          if (first_failure_ == 0) first_failure_ = code_when_killed_;
        } else {
          signal_all(SIGTERM);
        }
        end_.reset();
        end_by(kKillAfter);
      }
    }
    return first_failure_;
  }

 private:
  struct Child {
    pid_t pid = -1;
    bool grouped = false;
    File input;
    std::vector<Heard*> files;
    std::function<void(const Ending&)> on_end;
  };

  // The next measure comes at this time at the latest.
  void end_by(SteadyTime::duration from_now) {
    const auto end = SteadyTime::now() + from_now;
    end_ = std::min(end_.value_or(end), end);
  }
  // Everybody has been asked; whoever is left then is killed.
  void kill_after(SteadyTime::duration from_now, int code) {
    asked_ = true;
    code_when_killed_ = code;
    end_by(from_now);
  }

  Heard* hear_child(File file, Stream stream, const std::function<void(Stream, std::string_view)>& on_line) {
    Heard* heard = hear(file.get(), [stream, on_line](std::string_view line) { on_line(stream, line); }, {});
    heard->owned = std::move(file);
    return heard;
  }

  [[noreturn]] void become(const ChildOptions& options, pid_t parent, int out, int err, int in) const {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) std::_Exit(1);  // the parent died before it could be watched
    signals_.restore();
    ::signal(SIGPIPE, SIG_DFL);
    if (options.on_line) {
      ::setpgid(0, 0);
      ::dup2(in >= 0 ? in : ::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
      ::dup2(out, STDOUT_FILENO);
      ::dup2(err, STDERR_FILENO);
    }
    for (const auto& [name, value] : options.environment)
      ::setenv(name.c_str(), value.c_str(), 1);
    std::vector<std::string> copies = options.command;
    std::vector<char*> argv;
    for (std::string& copy : copies)
      argv.push_back(copy.data());
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    const std::string problem =
        cat("kith: cannot run '", options.command.front(), "': ", std::strerror(errno), "\n");
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, problem.data(), problem.size());
    std::_Exit(127);
  }

  // Input is short, and its reader reads all the time: a pipe takes it at once.
  static void tell(const Child& child, std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(child.input.get(), text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;  // it is gone; its ending tells
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void sleep() {
    std::vector<pollfd> files{{signals_.file(), POLLIN, 0}};
    for (const Heard& heard : heard_)
      if (!heard.over) files.push_back({heard.fd, POLLIN, 0});
    int timeout = -1;
    if (end_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end_ - SteadyTime::now()).count();
      timeout = static_cast<int>(std::max<decltype(left)>(0, left));
    }
    ::poll(files.data(), files.size(), timeout);
  }

  void reap() {
    int status = 0;
    for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0; pid = ::waitpid(-1, &status, WNOHANG)) {
      const auto found = std::ranges::find(children_, pid, &Child::pid);
      if (found == children_.end()) continue;
      Child& child = *found;
      // What it wrote before it ended is there; what its own children still write is nobody's.
      for (Heard* heard : child.files) {
        heard->read();
        heard->finish();
      }
      child.pid = -1;
      child.input.reset();
      const Ending ending = ending_of(status);
      if (child.on_end) child.on_end(ending);
      if (ending.code != 0) note_failure(ending.code);
    }
  }

  void kill_all(int signal) {
    for (Child& child : children_) {
      child.input.reset();
      if (child.pid > 0) ::kill(child.grouped ? -child.pid : child.pid, signal);
    }
  }

  const SupervisorOptions options_;
  const HeldSignals signals_;
  std::list<Child> children_;
  std::list<Heard> heard_;
  int first_failure_ = 0;
  std::optional<SteadyTime::time_point> interrupted_;  // by the first Ctrl-C
  // When whoever is left gets SIGTERM, or SIGKILL once all were asked to end.
  std::optional<SteadyTime::time_point> end_;
  bool asked_ = false;
  int code_when_killed_ = 0;
};

Supervisor::Supervisor(SupervisorOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Supervisor::~Supervisor() = default;

void Supervisor::start(ChildOptions options) {
  impl_->start(std::move(options));
}
void Supervisor::hear(int fd, std::function<void(std::string_view)> on_line, std::function<void()> on_end) {
  impl_->hear(fd, std::move(on_line), std::move(on_end));
}
void Supervisor::note_failure(int code) {
  impl_->note_failure(code);
}
void Supervisor::pass_on(int signal) {
  impl_->pass_on(signal);
}
void Supervisor::end_all() {
  impl_->end_all();
}
int Supervisor::wait() {
  return impl_->wait();
}

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

}  // namespace kith::cli

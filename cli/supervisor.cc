#include "cli/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <list>
#include <map>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/supervised_files.h"
#include "kith/base/clock.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

using SteadyTime = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kKillAfter = std::chrono::seconds(8);        // SIGTERM, to end in order
constexpr auto kSecondInterrupt = std::chrono::seconds(1);  // until nobody is left
constexpr auto kTogether = std::chrono::milliseconds(500);  // one Ctrl-C may come by two ways
constexpr auto kSayLate = std::chrono::seconds(30);         // who has not ended after the first has
constexpr auto kLeastForLate = std::chrono::minutes(10);
// Another thread of this process may take SIGCHLD and lose it: then an end is seen so much later.
constexpr std::chrono::milliseconds kLook(500);

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
  explicit Impl(SupervisorOptions options) : options_(std::move(options)), roll_(options_.deaths) {}
  ~Impl() {
    kill_all(SIGKILL);
    for (Child& child : children_)
      if (child.pid > 0) ::waitpid(child.pid, nullptr, 0);
  }

  void start(ChildOptions options) {
    Child child;
    child.name = options.name;
    child.remote = options.remote_input.has_value();
    child.grouped = options.on_line != nullptr;
    child.on_end = std::move(options.on_end);
    child.left = std::move(options.left);
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
      write_to(child, *options.remote_input);
    }
    roll_.started(options.workers);
    children_.push_back(std::move(child));
  }

  Heard* hear(int fd, std::function<void(std::string_view)> on_line, std::function<void()> on_end) {
    return &heard_.emplace_back(Heard{fd, std::move(on_line), std::move(on_end)});
  }

  void note_death(int code) {
    if (roll_.died(code) && !asked_ && !options_.independent) end_by(options_.ask_after);
  }

  void note_start() { roll_.started(); }
  void note_left() { roll_.went(); }

  // From now on the others are late.
  void note_end() {
    if (options_.independent || std::exchange(one_ended_, true)) return;
    const SteadyTime::duration ran = SteadyTime::now() - start_;
    const SteadyTime::duration limit = options_.end_within
                                           ? SteadyTime::duration(*options_.end_within)
                                           : std::max<SteadyTime::duration>(ran, kLeastForLate);
    if (limit > 2 * kSayLate) {
      later(kSayLate, [this, limit] {
        say(cat("not ended ", seconds(kSayLate), " s after the first did; gets SIGTERM after ",
                seconds(limit), " s"));
      });
    }
    later(limit, [this, limit] {
      if (asked_ || end_) return;  // something is done already
      say(cat("not ended ", seconds(limit), " s after the first did: gets SIGTERM, and SIGKILL ",
              seconds(kKillAfter), " s later"));
      signal_all(SIGTERM);
      kill_after(kKillAfter, 0);
    });
  }

  void tell(const std::string& name, std::string_view line) {
    for (Child& child : children_)
      if (child.name == name && child.input.get() >= 0) write_to(child, cat(line, "\n"));
  }

  void signal_one(const std::string& name, int signal) {
    for (const Child& child : children_)
      if (child.name == name && child.runs()) ::kill(child.pid, signal);
  }

  void later(SteadyTime::duration from_now, std::function<void()> action) {
    timers_.emplace(SteadyTime::now() + from_now, std::move(action));
  }
  void hold() { ++holds_; }
  void release() { --holds_; }
  const Roll& roll() const { return roll_; }
  bool ending() const { return asked_ || end_ || roll_.asked(); }

  // What a signal to this process means for everybody.
  void pass_on(int signal) {
    roll_.all_asked();
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
        write_to(child, cat("signal ", signal, "\n"));
      } else {
        ::kill(child.grouped ? -child.pid : child.pid, signal);
      }
    }
  }

  void end_all() {
    roll_.all_asked();
    signal_all(SIGTERM);
    kill_after(kKillAfter, 128 + SIGTERM);
  }

  int wait() {
    while (std::ranges::any_of(children_, &Child::runs) || (holds_ > 0 && !ending())) {
      sleep();
      for (Heard& heard : heard_)
        heard.read();
      while (const int signal = signals_.next())
        if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) pass_on(signal);
      reap();
      run_timers();
      if (end_ && SteadyTime::now() >= *end_) {
        if (std::exchange(asked_, true)) {
          kill_all(SIGKILL);
          roll_.killed(code_when_killed_);
        } else {
          signal_all(SIGTERM);
        }
        end_.reset();
        end_by(kKillAfter);
      }
    }
    return roll_.code();
  }

 private:
  struct Child {
    std::string name;
    pid_t pid = -1;
    bool grouped = false;
    bool remote = false;
    File input;
    std::vector<Heard*> files;
    std::function<void(const Ending&)> on_end;
    std::function<bool()> left;
    bool runs() const { return pid > 0; }
  };

  void run_timers() {
    while (!timers_.empty() && timers_.begin()->first <= SteadyTime::now()) {
      const auto timer = timers_.extract(timers_.begin());
      timer.mapped()();
    }
  }

  void say(const std::string& what) const {
    std::vector<std::string> names;
    for (const Child& child : children_)
      if (child.runs()) names.push_back(child.name);
    std::cerr << "kith: " << (options_.who_is_left ? options_.who_is_left() : kith::join(names)) << ": "
              << what << std::endl;
  }

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
  static void write_to(const Child& child, std::string_view text) {
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
    SteadyTime::time_point next = end_.value_or(SteadyTime::time_point::max());
    if (!timers_.empty()) next = std::min(next, timers_.begin()->first);
    std::chrono::milliseconds left = kLook;
    if (next != SteadyTime::time_point::max())
      left = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(next - SteadyTime::now()), 0ms, kLook);
    ::poll(files.data(), files.size(), static_cast<int>(left.count()));
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
      if (child.remote) continue;
      if (ending.code != 0) {
        note_death(ending.code);
      } else if (child.left && child.left()) {
        roll_.went();
      } else {
        note_end();
      }
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
  const SteadyTime::time_point start_ = SteadyTime::now();
  std::multimap<SteadyTime::time_point, std::function<void()>> timers_;
  Roll roll_;
  bool one_ended_ = false;  // with 0
  int holds_ = 0;
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
void Supervisor::signal(const std::string& name, int signal) {
  impl_->signal_one(name, signal);
}
void Supervisor::note_start() {
  impl_->note_start();
}
void Supervisor::note_end() {
  impl_->note_end();
}
void Supervisor::note_left() {
  impl_->note_left();
}
void Supervisor::note_death(int code) {
  impl_->note_death(code);
}
void Supervisor::tell(const std::string& name, std::string_view line) {
  impl_->tell(name, line);
}
void Supervisor::later(std::chrono::milliseconds from_now, std::function<void()> action) {
  impl_->later(from_now, std::move(action));
}
void Supervisor::hold() {
  impl_->hold();
}
void Supervisor::release() {
  impl_->release();
}
int Supervisor::lost() const {
  return impl_->roll().lost();
}
int Supervisor::left() const {
  return impl_->roll().left();
}
bool Supervisor::ending() const {
  return impl_->ending();
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

#pragma once

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace kith::cli {

// A file descriptor that is closed at the end of its life.
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

// Error when there are too many files.
Pipe make_pipe();

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
  void read();
  void finish();

 private:
  void take(std::string_view bytes);
};

}  // namespace kith::cli

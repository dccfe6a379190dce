#pragma once

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kith/base/clock.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::support {

// How a child process ended.
struct Ending {
  std::string report;      // what its body returned, or "threw: ..." when it threw
  int exit_code = -1;      // 0 good, 1 threw, 3 a failed expectation; -1 when a signal ended it
  int signal = 0;          // the signal that ended it
  bool timed_out = false;  // it was still running at the limit, and was killed
  bool good() const { return exit_code == 0; }
};

// Real processes for a test: forks at once, gathers what the bodies return, and leaves nobody running.
// EXPECT_* work inside bodies: they print, and turn the exit code into 3.
// REQUIRES: the calling process has one thread (fork copies only the caller).
class Processes {
 public:
  using Body = std::function<std::string(int index)>;

  Processes(int n, const Body& body) {
    std::fflush(nullptr);
    for (int i = 0; i < n; ++i)
      start(i, body);
  }
  ~Processes() {
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (children_[i].pid > 0) finish(children_[i], SIGKILL);
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  pid_t pid(int index) const { return children_.at(static_cast<std::size_t>(index)).pid; }
  void send(int index, int signal) const { ::kill(pid(index), signal); }

  // Waits for all of them, at most for `limit`; then kills the rest.
  std::vector<Ending> join(Clock::Duration limit) {
    const Deadline deadline = SteadyClock().now() + limit;
    while (gather(deadline)) {
    }
    std::vector<Ending> endings;
    for (Child& child : children_) {
      child.ending.timed_out = child.pipe >= 0;
      finish(child, child.ending.timed_out ? SIGKILL : 0);
      endings.push_back(child.ending);
    }
    return endings;
  }

 private:
  struct Child {
    pid_t pid = -1;
    int pipe = -1;
    Ending ending;
  };

  void start(int index, const Body& body) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw Error("cannot make a pipe", "test processes");
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) throw Error("cannot fork", "test processes");
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      ::close(ends[0]);
      for (const Child& sibling : children_)
        ::close(sibling.pipe);
      run_child(index, body, ends[1]);
    }
    ::close(ends[1]);
    children_.push_back({pid, ends[0], {}});
  }

  [[noreturn]] static void run_child(int index, const Body& body, int pipe) {
    int code = 0;
    std::string report;
    try {
      report = body(index);
      if (::testing::Test::HasFailure()) code = 3;
    } catch (const std::exception& e) {
      report = cat("threw: ", e.what());
      code = 1;
    }
    std::fflush(nullptr);
    for (std::size_t sent = 0; sent < report.size();) {
      const ssize_t n = ::write(pipe, report.data() + sent, report.size() - sent);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    ::_exit(code);
  }

  // Reads what is there; false when every pipe is closed or the deadline has passed.
  bool gather(Deadline deadline) {
    std::vector<pollfd> files;
    for (const Child& child : children_) {
      if (child.pipe >= 0) files.push_back({child.pipe, POLLIN, 0});
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock().now());
    if (files.empty() || left.count() <= 0) return false;
    ::poll(files.data(), files.size(), static_cast<int>(left.count()));
    for (const pollfd& file : files) {
      if (file.revents == 0) continue;
      for (Child& child : children_) {
        if (child.pipe == file.fd) read_some(child);
      }
    }
    return true;
  }

  static void read_some(Child& child) {
    std::array<char, 65536> buffer;
    const ssize_t n = ::read(child.pipe, buffer.data(), buffer.size());
    if (n > 0) {
      child.ending.report.append(buffer.data(), static_cast<std::size_t>(n));
    } else {
      ::close(child.pipe);
      child.pipe = -1;
    }
  }

  static void finish(Child& child, int signal) {
    if (signal != 0) ::kill(child.pid, signal);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    child.pid = -1;
    if (child.pipe >= 0) ::close(child.pipe);
    child.pipe = -1;
    if (WIFEXITED(status)) child.ending.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) child.ending.signal = WTERMSIG(status);
  }

  std::vector<Child> children_;
};

}  // namespace kith::support

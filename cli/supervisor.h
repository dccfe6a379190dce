#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "kith/launch/environment.h"

namespace kith::cli {

enum class Stream { out, err };

// How a process ended: 0, its exit code, or 128 + signal.
struct Ending {
  int code = 0;
  std::string text;  // "ended with exit code 3", "was killed by signal 9 (Killed)"
};

struct ChildOptions {
  std::vector<std::string> command;      // the program (found by PATH where it has no '/') and its arguments
  launch::Environment environment = {};  // over this process's own
  // Hears the output line by line; empty: the child shares this process's output and terminal. A child that
  // is heard leads a process group of its own and has no input.
  std::function<void(Stream stream, std::string_view line)> on_line = {};
  // For a child that stands for processes elsewhere: its input begins with this text, goes on with a line
  // "signal NUMBER" for every signal, and ends with this process.
  std::optional<std::string> remote_input = {};
  std::function<void(const Ending& ending)> on_end = {};
};

struct SupervisorOptions {
  // Processes that have nothing to do with each other: what one's failure means is for on_end to say.
  bool independent = false;
  // When one fails, the time for the others to end by themselves before they get SIGTERM. SIGKILL follows 8 s
  // later.
  std::chrono::milliseconds ask_after{8000};
  // After a SIGTERM to this process, which is passed on: when whoever is left is killed. Empty: whoever sent
  // it sees to that.
  std::optional<std::chrono::milliseconds> sigterm_limit = {};
  // Hears of SIGINT, SIGTERM and SIGHUP to this process once they are passed on.
  std::function<void(int signal)> on_signal = {};
};

// Runs processes together: they end with this one, a signal to this one (Ctrl-C, kill) is passed on to all,
// and when one fails the others get a moment to end by themselves before they are made to. A second Ctrl-C
// leaves nobody a second later. One thread, no other children in this process; signals are held from
// construction on and handled in wait.
class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options = {});
  // Kills whoever still runs.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Error when it cannot be forked; a program that cannot be run ends with 127 and says why on its output.
  // May be called from an on_end.
  void start(ChildOptions options);

  // Hears a file of this process line by line while waiting; `on_end` once it is at its end.
  void hear(int fd, std::function<void(std::string_view line)> on_line, std::function<void()> on_end);

  // A failure that is known before its process has ended (a worker of a remote machine).
  void note_failure(int code);
  // As if the signal had come to this process.
  void pass_on(int signal);
  // Everybody must end now: SIGTERM, and SIGKILL a moment later.
  void end_all();

  // Until all have ended. Returns 0 or the first failure's code.
  int wait();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// This very program, for children that are kith themselves.
std::string own_program();

}  // namespace kith::cli

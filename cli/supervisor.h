#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "cli/roll.h"
#include "kith/launch/environment.h"

namespace kith::cli {

enum class Stream { out, err };

// How a process ended: 0, its exit code, or 128 + signal.
struct Ending {
  int code = 0;
  std::string text;  // "ended with exit code 3", "was killed by signal 9 (Killed)"
};

struct ChildOptions {
  std::string name = {};                 // "worker 3": who it is in what the supervisor says
  std::vector<std::string> command;      // the program (found by PATH where it has no '/') and its arguments
  launch::Environment environment = {};  // over this process's own
  // Hears the output line by line; empty: the child shares this process's output and terminal. A child that
  // is heard leads a process group of its own and has no input.
  std::function<void(Stream stream, std::string_view line)> on_line = {};
  // For a child that stands for `workers` processes elsewhere: its input begins with this text, goes on with
  // a line "signal NUMBER" for every signal and what Supervisor::tell says, and ends with this process. What
  // becomes of those processes is for on_line and on_end to say (note_end, note_death).
  std::optional<std::string> remote_input = {};
  int workers = 1;
  std::function<void(const Ending& ending)> on_end = {};
  // Asked when it has ended with 0: whether it has left a run that goes on. Then nobody is late. Empty: no.
  std::function<bool()> left = {};
};

struct SupervisorOptions {
  // Processes that have nothing to do with each other: what one's failure means is for on_end to say.
  bool independent = false;
  DeathPolicy deaths = {};
  // When one fails and all are to end, the time for the others to end by themselves before they get SIGTERM.
  // SIGKILL follows 8 s later.
  std::chrono::milliseconds ask_after{8000};
  // After a SIGTERM to this process, which is passed on: when whoever is left is killed. Empty: whoever sent
  // it sees to that.
  std::optional<std::chrono::milliseconds> sigterm_limit = {};
  // Hears of SIGINT, SIGTERM and SIGHUP to this process once they are passed on.
  std::function<void(int signal)> on_signal = {};
  // Once one has ended with 0, the time for the others to end: then they get SIGTERM, and SIGKILL 8 s later.
  // Empty: as long again as they have run, ten minutes at least. Who is late is named on standard error, half
  // a minute after the first has ended and when something is done about it.
  std::optional<std::chrono::milliseconds> end_within = {};
  // "worker 3 and worker 5": who still runs; empty: the names of the children.
  std::function<std::string()> who_is_left = {};
};

// Runs processes together: they end with this one, a signal to this one (Ctrl-C, kill) is passed on to all.
// When one fails the others get a moment to end by themselves before they are made to, or go on without it
// (DeathPolicy). A second Ctrl-C leaves nobody a second later. One thread, no other children in this process;
// signals are held from construction on and handled in wait.
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

  // A worker for which a child stands has begun beyond ChildOptions::workers, has ended with 0, has left a
  // run that goes on, or has died.
  void note_start();
  void note_end();
  void note_left();
  void note_death(int code);
  // A line of input for the child of this name. One that has ended hears nothing.
  void tell(const std::string& name, std::string_view line);
  // A signal for the child of this name alone.
  void signal(const std::string& name, int signal);
  // As if the signal had come to this process.
  void pass_on(int signal);
  // Everybody must end now: SIGTERM, and SIGKILL a moment later.
  void end_all();

  // Calls it from wait, after this time, if wait has not ended by then.
  void later(std::chrono::milliseconds from_now, std::function<void()> action);
  // wait goes on, without children too, until as many releases; or until everybody is to end.
  void hold();
  void release();

  // Until all have ended. Returns 0 or the first failure's code; a death is no failure where the others go
  // on.
  int wait();

  // How many workers died while the others went on, and how many are left.
  int lost() const;
  int left() const;
  // Everybody is to end, or was asked to.
  bool ending() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// This very program, for children that are kith themselves.
std::string own_program();

}  // namespace kith::cli

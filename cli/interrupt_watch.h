#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <string>
#include <thread>

#include <sys/types.h>

#include "kith/train/run/summary.h"

namespace kith::cli {

// What a worker does when it gets SIGTERM.
struct OnSigterm {
  std::chrono::milliseconds limit{};  // to save in, or to leave in
  bool leaves = false;                // alone, and the others go on; false: all save and end
  pid_t starter = 0;                  // whose SIGTERM is for all in any case
};

// Ctrl-C and SIGTERM for a process that has something to save. Until there is (begin), either ends the
// process at once with kInterrupted or kTerminated; afterwards they ask for an orderly end. A second Ctrl-C,
// not together with the first signal, ends the process at once; after a SIGTERM the process ends at the
// latest when its limit is over, saved or not. SIGUSR1 asks the worker to leave a run that goes on. When the
// watch is over the run is, and the process only has to end: SIGTERM and SIGUSR1 do nothing any more. Make it
// before other threads, which then leave the signals to it.
class InterruptWatch {
 public:
  // `name` begins the lines that it says on standard error; empty: another process says them.
  explicit InterruptWatch(std::string name = {});
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // There is something to save from now on.
  void begin(const OnSigterm& on_sigterm);
  // How the run is to end; finished: by itself.
  const std::atomic<train::Ending>& asked() const { return asked_; }

 private:
  void watch();
  void say(const std::string& text) const;

  const std::string name_;
  std::mutex mutex_;      // guards on_sigterm_
  OnSigterm on_sigterm_;  // without a limit there is nothing to save
  std::atomic<train::Ending> asked_{train::Ending::finished};
  std::atomic<bool> over_{false};
  sigset_t previous_{};
  std::thread thread_;
};

// What SIGTERM makes of a run, in words: "SIGTERM: saves at a common step and ends, within 25 s".
std::string sigterm_text(std::chrono::milliseconds limit);

// The exit code of a run.
int code_of(train::Ending ending);

}  // namespace kith::cli

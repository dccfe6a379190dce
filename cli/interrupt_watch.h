#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "kith/train/run/summary.h"

namespace kith::cli {

// Ctrl-C and SIGTERM for a process that has something to save. Until there is (begin), either ends the
// process at once with kInterrupted or kTerminated; afterwards they ask for an orderly end. A second Ctrl-C,
// not together with the first signal, ends the process at once; after a SIGTERM the process ends at the
// latest when its limit is over, saved or not. Make it before other threads, which then leave the signals to
// it.
class InterruptWatch {
 public:
  // `name` begins the lines that it says on standard error; empty: another process says them.
  explicit InterruptWatch(std::string name = {});
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // There is something to save from now on, for which a SIGTERM leaves this time.
  void begin(std::chrono::milliseconds sigterm_limit);
  // How the run is to end; finished: by itself.
  const std::atomic<train::Ending>& asked() const { return asked_; }

 private:
  void watch();
  void say(const std::string& text) const;

  const std::string name_;
  std::atomic<std::chrono::milliseconds> sigterm_limit_{};  // 0: there is nothing to save
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

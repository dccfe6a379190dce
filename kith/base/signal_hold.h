#pragma once

#include <csignal>

namespace kith {

// While it lives the calling thread takes no signals, and neither do the threads that begin meanwhile, for
// good. For calls into libraries that start threads: one of theirs would take a signal that this process
// waits for elsewhere, and lose it (SIGCHLD) or end the process by it (SIGINT).
class SignalHold {
 public:
  SignalHold() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalHold() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalHold(const SignalHold&) = delete;
  SignalHold& operator=(const SignalHold&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace kith

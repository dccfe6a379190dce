#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace kith::cli {

inline constexpr int kInterrupted = 130;  // 128 + SIGINT, as a shell reports it

// Ctrl-C for a process that has something to save. Until there is (begin), it ends the process at once with
// kInterrupted; afterwards it asks for an orderly end, and a second one, not together with the first, ends
// the process at once. Make it before other threads, which then leave the signal to it.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // There is something to save from now on.
  void begin() { begun_ = true; }
  const std::atomic<bool>& interrupted() const { return interrupted_; }

 private:
  void watch();

  std::atomic<bool> begun_{false};
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> over_{false};
  sigset_t previous_{};
  std::thread thread_;
};

}  // namespace kith::cli

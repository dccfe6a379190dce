#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace kith::cli {

inline constexpr int kInterrupted = 130;  // 128 + SIGINT, as a shell reports it

// While it lives, Ctrl-C asks for an orderly end instead of ending the process; a second one, not together
// with the first, ends it at once with kInterrupted. Make it before other threads, which then leave the
// signal to it.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  const std::atomic<bool>& interrupted() const { return interrupted_; }

 private:
  void watch();

  std::atomic<bool> interrupted_{false};
  std::atomic<bool> over_{false};
  sigset_t previous_{};
  std::thread thread_;
};

}  // namespace kith::cli

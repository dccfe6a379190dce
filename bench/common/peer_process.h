#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "kith/base/clock.h"

namespace kith::bench {

// A child that answers a line for a line: orders go to its standard input, answers come from its standard
// output. Between orders it sleeps, so that several groups of workers can take turns on the same cores.
class PeerProcess {
 public:
  // Environment entries are NAME=VALUE, added to this process's own.
  PeerProcess(const std::vector<std::string>& command, const std::vector<std::string>& environment);
  // Dismisses the child and waits for it; one that does not end within 20 s is killed.
  ~PeerProcess();
  PeerProcess(PeerProcess&& other) noexcept;
  PeerProcess& operator=(PeerProcess&&) = delete;

  void order(const std::string& line);
  // Throws Error when the child ends instead of answering, or has not answered at the deadline.
  std::string answer(Deadline deadline = Deadline::max());
  // No more orders: the child ends when it has read this.
  void dismiss();
  void kill();

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string buffered_;
};

}  // namespace kith::bench

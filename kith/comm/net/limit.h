#pragma once

#include <optional>
#include <stop_token>

#include <sys/eventfd.h>

#include "kith/base/clock.h"
#include "kith/base/error.h"
#include "kith/comm/shm/descriptor.h"

namespace kith::comm::net {

// A stop token as poll sees it: a file that becomes readable when the stop is requested, from any thread.
class StopFile {
 public:
  explicit StopFile(std::stop_token stop)
      : file_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), callback_(std::move(stop), Ring{file_.get()}) {
    if (!file_) throw Error("cannot make an eventfd", "a wait that can be stopped", "raise ulimit -n");
  }

  int fd() const { return file_.get(); }

 private:
  struct Ring {
    int fd;
    void operator()() const noexcept { ::eventfd_write(fd, 1); }
  };

  const shm::Descriptor file_;
  const std::stop_callback<Ring> callback_;  // goes first: it uses the file
};

// How long a wait may go on: until the deadline, or until `stop` (a file; -1: none) becomes readable.
struct Limit {
  Limit(Deadline until) : deadline(until) {}  // NOLINT: a deadline is a limit
  Limit(Deadline until, int file) : deadline(until), stop(file) {}

  Deadline deadline;
  int stop = -1;
};

}  // namespace kith::comm::net

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace kith::comm::shm {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

// Error "PLACE: WHAT: strerror(errno)"; where descriptors have run out it says which limit to raise.
[[noreturn]] void fail(std::string_view what, std::string_view place);

// "raise RLIMIT_NOFILE (ulimit -n), which is 256"
std::string raise_descriptors();

// Makes sure that this process may open `more` descriptors besides those it has: raises its soft limit as far
// as needed. Error, with the value and the one needed, when the hard limit is below.
void make_room(std::size_t more, std::string_view place);

}  // namespace kith::comm::shm

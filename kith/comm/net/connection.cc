#include "kith/comm/net/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::comm::net {
namespace {

constexpr std::size_t kLength = 4;

void set_option(int socket, int level, int name, int value) {
  ::setsockopt(socket, level, name, &value, sizeof value);
}

constexpr Clock::Duration kSilence = std::chrono::seconds(30);

bool gone(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN || error == ETIMEDOUT ||
         error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN || error == ECONNABORTED;
}

}  // namespace

bool wait_ready(int fd, short events, const Limit& limit) {
  for (;;) {
    const Clock::Duration left =
        std::max<Clock::Duration>(limit.deadline - SteadyClock().now(), Clock::Duration(0));
    // A deadline may be years away; poll counts in int.
    const auto step = std::min<Clock::Duration>(left, std::chrono::hours(1));
    std::array<pollfd, 2> files{{{fd, events, 0}, {limit.stop, POLLIN, 0}}};
    const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(step).count();
    const int ready = ::poll(files.data(), files.size(), static_cast<int>(timeout));
    if (ready > 0) return files[0].revents != 0;
    if (ready < 0 && errno != EINTR) throw Error(cat("cannot wait: ", std::strerror(errno)), "poll");
    if (SteadyClock().now() >= limit.deadline) return false;
  }
}

Connection::Connection(shm::Descriptor socket) : socket_(std::move(socket)) {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK);
  set_option(fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  lose_after(kSilence);
  SocketAddress other;
  other.size = sizeof other.storage;
  const bool known =
      ::getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&other.storage), &other.size) == 0;
  peer_ = known ? text_of(other.readable()) : "a peer that is gone";
}

// The kernel asks after a third of the time, and then twice more; TCP_USER_TIMEOUT decides, also where
// something was sent and waits for its acknowledgement.
void Connection::lose_after(Clock::Duration silence) {
  const auto milliseconds = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(silence).count());
  const int step = std::max(1, milliseconds / 3000);
  set_option(fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd(), IPPROTO_TCP, TCP_KEEPIDLE, step);
  set_option(fd(), IPPROTO_TCP, TCP_KEEPINTVL, step);
  set_option(fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, milliseconds);
}

void Connection::queue(std::string_view message) {
  KITH_CHECK_LE(message.size(), std::size_t{UINT32_MAX}, "a message's length is four bytes");
  for (std::size_t i = 0; i < kLength; ++i)
    out_ += static_cast<char>(message.size() >> (8 * i));
  out_ += message;
  flush();
}

void Connection::flush() {
  while (has_unsent() && !ended_) {
    const ssize_t sent = ::send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (sent >= 0) {
      sent_ += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      return;
    } else if (gone(errno)) {
      break;  // what the peer sent before is still to be received, and shows the end
    } else if (errno != EINTR) {
      throw Error(cat("cannot send: ", std::strerror(errno)), peer_);
    }
  }
  out_.clear();
  sent_ = 0;
}

std::optional<std::string> Connection::take_message() {
  if (in_.size() < kLength) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLength; ++i)
    length |= std::size_t{static_cast<unsigned char>(in_[i])} << (8 * i);
  if (length > most_bytes_) {
    throw Error(cat("announces a message of ", length, " bytes, at most ", most_bytes_, " are taken"), peer_);
  }
  if (in_.size() < kLength + length) return std::nullopt;
  std::string message = in_.substr(kLength, length);
  in_.erase(0, kLength + length);
  return message;
}

std::optional<std::string> Connection::receive() {
  std::array<char, 65536> buffer;
  for (;;) {
    if (auto message = take_message()) return message;
    if (ended_) return std::nullopt;
    const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), 0);
    if (got > 0) {
      in_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || gone(errno)) {
      ended_ = true;
    } else if (errno == EAGAIN) {
      return std::nullopt;
    } else if (errno != EINTR) {
      throw Error(cat("cannot receive: ", std::strerror(errno)), peer_);
    }
  }
}

void Connection::send(std::string_view message, const Limit& limit) {
  for (queue(message); has_unsent(); flush()) {
    if (!wait_ready(fd(), POLLOUT, limit)) throw Error("does not take a message in time", peer_);
  }
}

std::string Connection::await(const Limit& limit) {
  for (;;) {
    if (auto message = receive()) return *message;
    if (ended_) throw Error("closed the connection", peer_);
    if (!wait_ready(fd(), POLLIN, limit)) throw Error("does not answer in time", peer_);
  }
}

}  // namespace kith::comm::net

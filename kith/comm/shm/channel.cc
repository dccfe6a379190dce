#include "kith/comm/shm/channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::comm::shm {
namespace {

constexpr std::string_view kPlace = "backend shm";
constexpr std::size_t kMostDescriptors = 4;
constexpr std::size_t kMostBytes = 4096;

struct Address {
  explicit Address(const std::string& name) {
    value.sun_family = AF_UNIX;
    KITH_CHECK_LT(name.size() + 1, sizeof value.sun_path, "abstract socket names are short");
    std::memcpy(value.sun_path + 1, name.data(), name.size());  // a leading zero byte: the abstract namespace
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
  sockaddr_un value{};
  socklen_t size;
};

Descriptor make_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) fail("cannot make a Unix socket", kPlace);
  return socket;
}

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail("cannot draw a socket name", kPlace);
  }
  std::string name = "kith-";
  for (const unsigned char byte : bytes) {
    name.append({"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]});
  }
  return name;
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

}  // namespace

void Channel::send(std::string bytes, std::vector<std::shared_ptr<const Descriptor>> descriptors) {
  KITH_CHECK_LE(bytes.size(), kMostBytes, "a packet");
  KITH_CHECK_LE(descriptors.size(), kMostDescriptors, "descriptors of a packet");
  unsent_.push_back({std::move(bytes), std::move(descriptors)});
  flush();
}

void Channel::flush() {
  while (!unsent_.empty() && send_now(unsent_.front()))
    unsent_.pop_front();
}

bool Channel::send_now(const Outgoing& packet) {
  iovec bytes{const_cast<char*>(packet.bytes.data()), packet.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> room{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (!packet.descriptors.empty()) {
    message.msg_control = room.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * packet.descriptors.size());
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int) * packet.descriptors.size());
    std::array<int, kMostDescriptors> fds{};
    std::transform(packet.descriptors.begin(), packet.descriptors.end(), fds.begin(),
                   [](const auto& fd) { return fd->get(); });
    std::memcpy(CMSG_DATA(control), fds.data(), sizeof(int) * packet.descriptors.size());
  }
  const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  crowded_ = sent < 0 && errno == ETOOMANYREFS;
  if (sent >= 0) return true;
  if (crowded_ || errno == EAGAIN || errno == EINTR) return false;
  // A peer that is gone shows itself when one receives from it; there is nobody to send to.
  if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return true;
  fail("cannot send to a peer", kPlace);
}

std::optional<Packet> Channel::receive() {
  std::array<char, kMostBytes> buffer;
  iovec bytes{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> room;
  ssize_t got = -1;
  msghdr message{};
  do {
    message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    // ECONNRESET comes once, when the peer left something of ours
    // unread; what it sent before still lies here.
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got < 0) {
    if (errno == EAGAIN) return std::nullopt;
    fail("cannot receive from a peer", kPlace);
  }
  Packet packet{std::string(buffer.data(), static_cast<std::size_t>(got)), {}};
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t i = 0; i + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); i += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i, sizeof fd);
      packet.descriptors.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0)
    throw Error("cannot open what a peer shares: too many open files", kPlace, raise_descriptors());
  if (got == 0) {
    ended_ = true;
    return std::nullopt;
  }
  return packet;
}

Listener::Listener() : socket_(make_socket()), address_(random_name()) {
  const Address address(address_);
  if (::bind(socket_.get(), address.get(), address.size) != 0) fail("cannot bind a Unix socket", kPlace);
  if (::listen(socket_.get(), SOMAXCONN) != 0) fail("cannot listen", kPlace);
}

std::optional<Channel> Listener::accept() {
  for (;;) {
    Descriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return std::nullopt;
      fail("cannot accept a connection", kPlace);
    }
    if (same_user(socket.get())) return Channel(std::move(socket));
  }
}

Connecting connect(const std::string& name) {
  const Address address(name);
  Descriptor socket = make_socket();
  if (::connect(socket.get(), address.get(), address.size) != 0) {
    if (errno == ECONNREFUSED) return {.channel = {}, .nobody_there = true};
    if (errno == EAGAIN || errno == EINTR) return {};
    fail(cat("cannot connect to '", name, "'"), kPlace);
  }
  if (!same_user(socket.get())) {
    throw Error(cat("the socket '", name, "' belongs to another user"), kPlace,
                "run all workers of a machine as one user");
  }
  return {.channel = Channel(std::move(socket))};
}

}  // namespace kith::comm::shm

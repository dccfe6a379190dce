#include "bench/network/plain_swap.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "kith/base/error.h"

namespace kith::bench {
namespace {

constexpr auto kTimeout = std::chrono::seconds(30);

comm::net::Connection meet(int rank, const std::string& interface, comm::Store& store) {
  const Deadline deadline = SteadyClock().now() + kTimeout;
  if (rank == 0) {
    comm::net::ListenOptions at;
    at.interface = interface;
    comm::net::Listener listener(at);
    store.set("plain", comm::net::text_of(listener.bound()));
    if (!comm::net::wait_ready(listener.fd(), POLLIN, deadline))
      throw Error("nobody connects", "plain sockets");
    return std::move(*listener.accept());
  }
  const std::string address = store.wait("plain", deadline).value_or("");
  comm::net::ConnectOptions to;
  to.to = comm::net::parse_address(address, "plain sockets");
  return comm::net::connect(to, deadline);
}

}  // namespace

PlainSwap::PlainSwap(int rank, const std::string& interface, comm::Store& store)
    : socket_(::dup(meet(rank, interface, store).fd())) {}

void PlainSwap::swap(std::span<const std::byte> mine, std::span<std::byte> theirs) {
  while (!mine.empty() || !theirs.empty()) {
    bool moved = false;
    if (!mine.empty()) {
      const ssize_t n = ::send(socket_.get(), mine.data(), mine.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) mine = mine.subspan(static_cast<std::size_t>(n));
      moved = n > 0;
    }
    if (!theirs.empty()) {
      const ssize_t n = ::recv(socket_.get(), theirs.data(), theirs.size(), MSG_DONTWAIT);
      if (n == 0) throw Error("the peer closed", "plain sockets");
      if (n > 0) theirs = theirs.subspan(static_cast<std::size_t>(n));
      moved = moved || n > 0;
    }
    if (moved) continue;
    pollfd file{socket_.get(),
                static_cast<short>((mine.empty() ? 0 : POLLOUT) | (theirs.empty() ? 0 : POLLIN)), 0};
    ::poll(&file, 1, 1000);
  }
}

}  // namespace kith::bench

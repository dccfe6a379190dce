// The two ways to come by a Connection: connect and Listener.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <poll.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/net/connection.h"

namespace kith::comm::net {
namespace {

using std::chrono::milliseconds;

constexpr auto kLongWait = std::chrono::seconds(3);
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{500};

shm::Descriptor make_socket(int family) {
  shm::Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw Error(cat("cannot make a TCP socket: ", std::strerror(errno)), "socket");
  return socket;
}

// Connected, or the reason why not.
struct Attempt {
  shm::Descriptor socket;
  int error = 0;
};

// Connecting to a free port of one's own machine can meet itself, when the kernel picks that very port to
// connect from.
bool met_itself(int fd) {
  SocketAddress own, other;
  own.size = other.size = sizeof own.storage;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own.storage), &own.size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&other.storage), &other.size) == 0 &&
         own.readable() == other.readable();
}

Attempt attempt(const SocketAddress& to, const std::string& interface, const Limit& limit) {
  Attempt result{make_socket(to.family()), 0};
  const int fd = result.socket.get();
  if (!interface.empty()) {
    const SocketAddress from = address_of_interface(interface, 0);
    if (from.family() != to.family()) return {{}, EAFNOSUPPORT};
    if (::bind(fd, from.get(), from.size) != 0) return {{}, errno};
  }
  if (::connect(fd, to.get(), to.size) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return {{}, errno};
    if (!wait_ready(fd, POLLOUT, limit)) return {{}, ETIMEDOUT};
    socklen_t size = sizeof result.error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &result.error, &size);
  }
  if (result.error == 0 && met_itself(fd)) result.error = ECONNREFUSED;
  return result;
}

bool named_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

Connection connect(const ConnectOptions& options, const Limit& limit) {
  const Clock::Time start = SteadyClock().now();
  bool told = false;
  for (Clock::Duration pause = kFirstPause;; pause = std::min<Clock::Duration>(2 * pause, kLongestPause)) {
    int error = 0;
    for (const SocketAddress& to : resolve(options.to)) {
      // One address of several may swallow packets: it gets its share of the time.
      const Deadline share = std::min(limit.deadline, SteadyClock().now() + std::chrono::seconds(5));
      Attempt result = attempt(to, options.interface, {share, limit.stop});
      if (result.error == 0) return Connection(std::move(result.socket));
      error = result.error;
    }
    const Clock::Time now = SteadyClock().now();
    const bool stopped = wait_ready(limit.stop, POLLIN, now);
    const bool final =
        options.retry == Retry::never || (options.retry == Retry::unless_refused && error == ECONNREFUSED);
    if (now >= limit.deadline || stopped || final) {
      const std::string what = cat("cannot connect: ", std::strerror(error));
      constexpr std::string_view remedy = "check that it runs, and that no firewall stands between";
      if (error == ECONNREFUSED) throw Refused(what, text_of(options.to), remedy);
      throw Error(what, text_of(options.to), remedy);
    }
    if (!told && options.log != nullptr && now - start >= kLongWait) {
      options.log->warning(cat("waits for ", text_of(options.to), ": ", std::strerror(error), ", ",
                               seconds(now - start), " s"));
      told = true;
    }
    wait_ready(-1, 0, {std::min(limit.deadline, now + pause), limit.stop});
  }
}

Listener::Listener(const ListenOptions& options) {
  if (!options.interface.empty()) {
    bind_to(address_of_interface(options.interface, options.at.port), options.at);
  } else {
    const std::vector<SocketAddress> addresses = resolve(options.at);
    const bool only_here = named_loopback(options.at.host);
    const bool bound = std::ranges::any_of(addresses, [&](const SocketAddress& address) {
      return (only_here || !address.loopback()) && bind_to(address, options.at);
    });
    if (!bound) {
      SocketAddress any;
      auto* v4 = reinterpret_cast<sockaddr_in*>(&any.storage);
      v4->sin_family = AF_INET;
      v4->sin_port = htons(options.at.port);
      any.size = sizeof *v4;
      bind_to(any, options.at);
    }
  }
  if (::listen(socket_.get(), SOMAXCONN) != 0)
    throw Error(cat("cannot listen: ", std::strerror(errno)), text_of(options.at));
  SocketAddress own;
  own.size = sizeof own.storage;
  ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.size);
  bound_ = own.readable();
}

bool Listener::bind_to(const SocketAddress& address, const Address& asked) {
  socket_ = make_socket(address.family());
  const int on = 1;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket_.get(), address.get(), address.size) == 0) return true;
  if (errno == EADDRNOTAVAIL) return false;
  if (errno == EADDRINUSE)
    throw Error(cat("port ", asked.port, " is in use"), text_of(asked), "choose another port");
  throw Error(cat("cannot bind: ", std::strerror(errno)), text_of(asked), "choose another port");
}

std::optional<Connection> Listener::accept() {
  for (;;) {
    shm::Descriptor socket(::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) return Connection(std::move(socket));
    if (errno == EAGAIN) return std::nullopt;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      throw Error(cat("cannot accept: ", std::strerror(errno)), text_of(bound_), "raise ulimit -n");
    }
    // Everything else is the fate of that one connection.
  }
}

}  // namespace kith::comm::net

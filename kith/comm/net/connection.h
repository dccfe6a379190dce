#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "kith/base/clock.h"
#include "kith/base/error.h"
#include "kith/base/log.h"
#include "kith/comm/net/address.h"
#include "kith/comm/net/limit.h"
#include "kith/comm/shm/descriptor.h"

namespace kith::comm::net {

// A TCP connection that carries messages: four bytes of length (little-endian), then the bytes. Only the
// calls that take a deadline wait, and they sleep in poll. Closed at the end of its life. One thread at a
// time.
class Connection {
 public:
  // Takes over a connected socket, and makes it non-blocking.
  explicit Connection(shm::Descriptor socket);

  int fd() const { return socket_.get(); }
  // Who is at the other end, in numbers: "10.0.0.7:41532".
  const std::string& peer() const { return peer_; }

  // The longest message to accept from now on; 64 MiB at first. Set it low before the peer is known.
  void limit(std::size_t most_bytes) { most_bytes_ = most_bytes; }

  // Sends now what the kernel takes; a later flush sends the rest.
  void queue(std::string_view message);
  void flush();
  bool has_unsent() const { return sent_ < out_.size(); }

  // The next message that is there as a whole; nothing while there is none. Error when the peer announces one
  // above the limit.
  std::optional<std::string> receive();
  // True once the peer has closed its end (or was reset) and every whole message was received.
  bool ended() const { return ended_; }

  // As above, but waits. Error naming the peer when the limit is reached or the connection ends.
  void send(std::string_view message, const Limit& limit);
  std::string await(const Limit& limit);

  // The connection ends when the peer's machine has acknowledged nothing for so long; half a minute at first.
  // A stopped process is not concerned: its kernel acknowledges.
  void lose_after(Clock::Duration silence);

 private:
  std::optional<std::string> take_message();

  shm::Descriptor socket_;
  std::string peer_;
  std::size_t most_bytes_ = std::size_t{64} << 20;
  std::string out_;
  std::size_t sent_ = 0;  // of out_
  std::string in_;
  bool ended_ = false;
};

// Which failures to connect are taken for a peer that has not come yet.
enum class Retry {
  until_limit,     // all
  unless_refused,  // it has listened there: when its machine says that nobody does, it has ended
  never,
};

struct ConnectOptions {
  Address to;
  // From this interface; empty: the kernel's choice.
  std::string interface = {};
  Retry retry = Retry::until_limit;
  Log* log = nullptr;  // may be null; hears of a long wait
};

// The machine is there and says that nobody listens.
class Refused : public Error {
 public:
  using Error::Error;
};

// Connects, and tries again as the options say. Error with the last reason when the limit is
// reached, Refused where that was it; InputError for a host or interface that does not exist.
Connection connect(const ConnectOptions& options, const Limit& limit);

struct ListenOptions {
  Address at;  // port 0: a free one
  // On this interface's address alone, whatever the host; empty: see Listener.
  std::string interface = {};
};

// Listens on the address of the named interface; without one on the host's own address when this machine has
// it, else (the name leads to a router, or only to 127.0.x.x from this machine) on all addresses.
class Listener {
 public:
  // Error when the port is in use.
  explicit Listener(const ListenOptions& options);

  int fd() const { return socket_.get(); }
  // What it is bound to, in numbers, with the real port.
  const Address& bound() const { return bound_; }
  // The next connection, or nothing while there is none. Error when the process has no descriptor left.
  std::optional<Connection> accept();

 private:
  bool bind_to(const SocketAddress& address, const Address& asked);

  shm::Descriptor socket_;
  Address bound_;
};

// Sleeps until the file is ready for `events` (as of poll) or the limit is reached; true when it is ready,
// also where both come together. No file (-1) is never ready.
bool wait_ready(int fd, short events, const Limit& limit);

}  // namespace kith::comm::net

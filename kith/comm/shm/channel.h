#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kith/comm/shm/descriptor.h"

namespace kith::comm::shm {

// A message and the descriptors that travel with it.
struct Packet {
  std::string bytes;
  std::vector<Descriptor> descriptors;
};

// A connection between two processes of one user on one machine, for meeting only: rounds never touch it.
// Never blocks. One thread at a time.
class Channel {
 public:
  explicit Channel(Descriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  // Sent now, or by a later flush when the peer is slow to read.
  void send(std::string bytes, std::vector<std::shared_ptr<const Descriptor>> descriptors = {});
  void flush();
  bool has_unsent() const { return !unsent_.empty(); }
  // The kernel takes no more descriptors for now: too many of this user's are under way between processes
  // (RLIMIT_NOFILE counts them all, but not root's). Those who receive make room; nothing tells when.
  bool crowded() const { return crowded_; }
  // The next message, or nothing while there is none. Error when this process may not open the descriptors
  // that came with it.
  std::optional<Packet> receive();
  // True once the peer has closed its end and everything it sent was received.
  bool ended() const { return ended_; }

 private:
  struct Outgoing {
    std::string bytes;
    std::vector<std::shared_ptr<const Descriptor>> descriptors;
  };
  bool send_now(const Outgoing& packet);

  Descriptor socket_;
  std::deque<Outgoing> unsent_;
  bool crowded_ = false;
  bool ended_ = false;
};

// A listening socket in the abstract namespace (it vanishes with the process) under a name nobody can guess.
class Listener {
 public:
  // Error when no socket can be made.
  Listener();
  int fd() const { return socket_.get(); }
  // For connect(), in any process of this machine.
  const std::string& address() const { return address_; }
  // The next connection, or nothing while there is none. Those of other users are turned away.
  std::optional<Channel> accept();

 private:
  Descriptor socket_;
  std::string address_;
};

// Nothing when it has to be tried again. Error when it belongs to another user.
struct Connecting {
  std::optional<Channel> channel;
  bool nobody_there = false;  // nobody listens there, or nobody does any more
};
Connecting connect(const std::string& address);

}  // namespace kith::comm::shm

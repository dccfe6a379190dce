#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kith/comm/mapped/context.h"
#include "kith/comm/protocol/layout.h"
#include "kith/comm/shm/channel.h"
#include "kith/comm/shm/life.h"
#include "kith/comm/store.h"

namespace kith::comm::shm {

// A peer's side of a window: what it opened, and its memory.
struct Announcement {
  protocol::Head head;
  Descriptor control;
  Descriptor payload;
};

// How the processes of a machine find each other and hand over their windows. The store holds the socket
// address of every worker; of two workers the one with the greater index connects. Both say hello (magic,
// protocol, who, life segment), then announce their windows. One thread at a time.
class Meeting {
 public:
  // Publishes this worker's address. The three must outlive the meeting.
  Meeting(mapped::Context& context, Store& store, Life& life);

  // Announces this worker's side of a window to the peers and gathers
  // theirs, in the order of `peers`. InputError when a peer speaks another
  // protocol; Error when one is lost or does not come before the deadline.
  struct Offer {
    protocol::Head head;
    int control = -1;  // descriptors, not owned
    int payload = -1;
  };
  std::vector<Announcement> exchange(const std::string& window, const Offer& own,
                                     const std::vector<int>& peers, Deadline deadline);

  // The first message of a channel; later protocols keep its first three fields.
  struct Hello {
    std::uint64_t magic = protocol::kMagic;
    std::uint32_t protocol = protocol::kProtocol;
    std::int32_t worker = -1;
    std::uint64_t workers_digest = 0;
  };
  // Where a worker's address lies in the store.
  static std::string key(WorkerId worker);

 private:
  struct Peer {
    std::optional<Channel> channel;
    bool greeted = false;
    std::multimap<std::string, Announcement> announced;  // not yet taken, by window
  };

  void greet(Channel& channel);
  void accept_all();
  void try_connect(int peer);
  void receive_from(int peer);
  // Checks a hello and starts to watch its sender, whose index it returns.
  int welcome(const Packet& packet);
  void sleep(const std::vector<int>& peers, Deadline deadline) const;

  mapped::Context& context_;
  Store& store_;
  Life& life_;
  const std::uint64_t workers_digest_;
  Listener listener_;
  std::vector<Channel> strangers_;  // connected, hello not read yet
  std::vector<Peer> peers_;         // by worker index
};

}  // namespace kith::comm::shm

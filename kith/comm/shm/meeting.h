#pragma once

#include <functional>
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

// A peer's memory behind a window.
struct Memory {
  Descriptor control;
  Descriptor payload;
};

// How the processes of a machine find each other and hand over their windows. The store holds the socket
// address of every worker; of two workers the one with the greater index connects. Both say hello (magic,
// protocol, who). A worker that opens a window tells its peers that it wants it, and hands its memory over to
// those who want it too: so descriptors travel only to those who take them at once, and few are open at any
// time. One thread at a time.
class Meeting {
 public:
  // Publishes this worker's address. The three must outlive the meeting.
  Meeting(mapped::Context& context, Store& store, Life& life);

  // This worker's side of a window. The descriptors are not owned.
  struct Offer {
    const WindowOptions& window;
    protocol::Head head;
    int control = -1;
    int payload = -1;
  };
  using Take = std::function<void(int peer, const Memory& memory)>;

  // Hands this worker's side of a window to the peers and `take`s theirs as they come. InputError when a peer
  // speaks another protocol or wants another window; Error when one is lost or does not come before the
  // deadline, and when it is cancelled.
  void exchange(const Offer& own, const std::vector<int>& peers, const Take& take, Deadline deadline);

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
    bool watched = false;                               // it has this worker's life segment
    std::multimap<std::string, protocol::Head> wanted;  // by the peer, not yet by this worker; by window
  };
  // How far a peer has come in one exchange.
  struct Progress {
    bool told = false;
    bool handed = false;
    bool taken = false;
  };
  using Shared = std::shared_ptr<const Descriptor>;

  void greet(Channel& channel);
  void accept_all();
  void try_connect(int peer);
  // Takes what has come; the memory behind `window`, if it is there.
  std::optional<Memory> receive_from(int peer, const std::string& window);
  // Checks a hello, and returns its sender's index.
  int welcome(const Packet& packet);
  // Tells and hands over as much as is due.
  void offer(const Offer& own, const Shared& control, const Shared& payload, int peer, Progress& progress);
  [[noreturn]] void give_up(const std::string& window, const std::vector<int>& peers, int waited_for) const;
  void sleep(const std::vector<int>& peers, Deadline deadline) const;

  mapped::Context& context_;
  Store& store_;
  Life& life_;
  const Shared own_life_;
  const std::uint64_t workers_digest_;
  Listener listener_;
  std::vector<Channel> strangers_;  // connected, hello not read yet
  std::vector<Peer> peers_;         // by worker index
};

}  // namespace kith::comm::shm

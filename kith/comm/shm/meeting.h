#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
  protocol::Head head = {};  // as the peer has it
};

// A window's peers on other machines, as the meeting of those on this one sees them.
struct Elsewhere {
  std::vector<int> peers = {};
  std::function<void()> look = {};  // finds out whether they are there; may take a second
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
    // The window's peers that are not met here; when one of them is lost, the others may come no more.
    Elsewhere elsewhere = {};
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
    Clock::Time next_try{};  // to reach it
    Clock::Duration look_again = std::chrono::milliseconds(300);
    bool greeted = false;
    bool watched = false;                               // it has this worker's life segment
    std::multimap<std::string, protocol::Head> wanted;  // by the peer, not yet by this worker; by window
  };
  // How far a peer has come in one exchange.
  struct Progress {
    bool told = false;
    bool handed = false;
    bool taken = false;
    bool done = false;  // both, and all is sent: what it says next is of other windows
    std::optional<protocol::Head> theirs = {};  // once the peer wants it too
  };
  using Shared = std::shared_ptr<const Descriptor>;

  void greet(Channel& channel);
  void accept_all();
  // Of two workers the one with the greater index connects; the other only looks, after a while, whether the
  // peer is there. One that has listened and does no longer is lost.
  void try_connect(int peer, Clock::Duration waited);
  // Takes what has come; the memory behind `window`, if it is there.
  std::optional<Memory> receive_from(int peer, const std::string& window);
  // Checks a hello, and returns its sender's index.
  int welcome(const Packet& packet);
  // Tells and hands over as much as is due.
  void offer(const Offer& own, const Shared& control, const Shared& payload, int peer, Progress& progress);
  // The peer's. InputError when it said something else than it should.
  protocol::Head head_of(int peer, const Offer& own, const Progress& progress) const;
  [[noreturn]] void give_up(const std::string& window, const std::vector<int>& peers, int waited_for) const;
  // Until something comes, or until then. Who of those that are not done has sent something.
  std::set<int> sleep(const std::map<int, Progress>& progress, Deadline until) const;

  mapped::Context& context_;
  Store& store_;
  Life& life_;
  const Shared own_life_;
  const std::uint64_t workers_digest_;
  Listener listener_;
  std::vector<Channel> strangers_;  // connected, hello not read yet
  std::map<int, Peer> peers_;       // by worker index; those who are met, or waited for
};

}  // namespace kith::comm::shm

#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kith/comm/mapped/context.h"
#include "kith/comm/mapped/link.h"
#include "kith/comm/net/connection.h"
#include "kith/comm/net/handshake.h"
#include "kith/comm/ucx/exchange.h"
#include "kith/comm/ucx/peer.h"

namespace kith::comm::ucx {

struct Greeting;

struct DriverOptions {
  std::string secret;           // of the run; empty: none
  std::string interface;        // to connect from
  std::vector<bool> elsewhere;  // by index: who is reached over the network
  // Where the listener of one of those is. Safe from any thread.
  std::function<net::Address(int index)> address_of;
  Settings settings;
  int lanes = 1;
};

// Everything that passes between this worker and those on other machines. One thread does it all: it sleeps
// until a message, a connection or a command of this worker's other threads comes, and never spins; UCX is
// used by no other. The rest of kith sees windows' links. Held by the transport and by every link.
class Driver final : public std::enable_shared_from_this<Driver>, private Post {
 public:
  // Peers connect to the listener. Error when UCX cannot start.
  Driver(std::shared_ptr<mapped::Context> context, net::Listener listener, DriverOptions options);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // A window on its way to being shared with `peers` (indices): they hear of it. Dropping the link closes it.
  class WindowLink;
  std::shared_ptr<WindowLink> announce(const WindowOptions& options, const mapped::Block& own,
                                       const std::vector<int>& peers, Deadline deadline);
  // Waits until every peer has opened it too. Fails as Transport::open does.
  std::vector<mapped::PeerBlock> gather(const WindowOptions& options, const WindowLink& link,
                                        Deadline deadline);

  // Finds out whether those who have not opened it are there at all; the others are lost. May take a second.
  void look_for_absent(const WindowLink& link);

  // That worker's process has ended. What is known of one that was met is better known here.
  void heed_end(int peer);

  // Says goodbye: what was published goes out first, for a while at most. Peers see this worker close in
  // order. Links do nothing afterwards.
  void stop();

 private:
  // absent   nothing is known of it yet
  // meeting  the lifeline is there, its hello is not
  // met      messages pass
  // leaving  a lane or its lifeline has ended, or it said farewell; what it sent before may still come
  // dying    its lanes are being closed
  // gone     it is marked lost
  enum class State { absent, meeting, met, leaving, dying, gone };
  struct Contact {
    explicit Contact(int self, std::uint64_t token) : peer(self, token) {}
    Peer peer;
    State state = State::absent;
    Clock::Time since{};                    // when it began to leave or to die
    std::vector<std::string> to_say;        // announcements, until it is met
    std::string failure;                    // of a lane, to be looked at
    std::string why;                        // it is lost; empty: it closed in order
    std::optional<std::uint64_t> farewell;  // how many stripes it says it sent in all
    bool said_farewell = false;
    bool parted = false;      // it has acknowledged this worker's farewell, or is leaving itself
    bool complained = false;  // one line in the log about its messages is enough
  };
  struct Stranger {
    net::Connection connection;
    net::Handshake handshake;
    Clock::Time since;
  };
  struct Opening {  // by this worker, until the lanes to all peers are open
    std::shared_ptr<NetWindow> window;
    std::shared_ptr<std::promise<void>> open;
  };
  struct Opened {  // by a peer
    protocol::Head head;
    std::uint64_t number;
  };

  // Post
  void tell(int peer, const Envelope& envelope) override;
  void send(int peer, const DataHeader& header, std::span<const std::byte> payload, Done done) override;
  bool has_room(int peer) const override;

  void post(std::function<void()> command);
  void meet_all(const std::vector<int>& peers, const net::Limit& limit);
  void meet(int peer, const net::Limit& limit);
  // Whether anybody listens where that peer, which has not come yet, should.
  void look_after(int peer);

  // The thread.
  void run(std::promise<void> started);
  bool run_commands();
  // Sleeps until there is something to do, or only looks; then does what came over sockets.
  enum class Rest { sleep, look };
  void watch_sockets(Rest rest);
  void take_message(std::span<const std::byte> header, Delivery& delivery);
  void beat();
  // Moves on those who leave or die, as far as they have come.
  void see_off();
  void lose(int index, std::string why);
  void complain(std::string_view about, std::string_view what);

  // The thread, meeting and parting (meeting.cc).
  // What is known of that peer, from now on.
  Contact& contact(int index);
  void accept_all();
  // True when the stranger need not be listened to any more: it became a peer, or was turned away.
  bool admit(Stranger& stranger);
  void adopt(int index, net::Connection connection);
  void listen_to(int index);
  void hear(int index, std::string_view bytes);
  std::string hello_for(int index) const;
  // Empty, or why the two cannot work together.
  std::string take_greeting(int index, const Greeting& greeting);
  void refuse(int index, const std::string& why);
  // Now, or when it is met.
  void say(int index, std::string message);
  void write(int index, std::string_view message);
  void tell_openers();
  void say_farewells();
  bool all_parted() const;

  const std::shared_ptr<mapped::Context> context_;
  const DriverOptions options_;
  net::Listener listener_;
  const shm::Descriptor bell_;  // rung when there is a command

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::function<void()>> commands_;
  bool stopped_ = false;
  std::vector<std::multimap<std::string, Opened>> opened_;  // by peer, by window; not yet gathered
  std::vector<std::string> refusals_;                       // by peer; why it cannot be worked with

  std::mutex open_mutex_;  // one window is announced and gathered at a time; guards what follows
  std::vector<bool> connected_;
  std::uint64_t next_number_ = 1;

  // The thread's own.
  std::unique_ptr<Worker> worker_;
  Exchange exchange_;
  std::map<int, Contact> contacts_;  // by index; those who have come, or are waited for
  std::list<Stranger> strangers_;
  std::vector<Opening> opening_;
  int complaints_ = 0;  // about strangers
  Clock::Time next_beat_{}, last_look_{};
  Clock::Time deaf_until_{};  // no connections are accepted before
  std::optional<Clock::Time> closing_until_;
  std::thread thread_;
};

// What a window holds of the driver.
class Driver::WindowLink final : public mapped::Link {
 public:
  WindowLink(std::shared_ptr<Driver> driver, std::shared_ptr<NetWindow> window)
      : driver_(std::move(driver)), window_(std::move(window)) {}
  ~WindowLink() override;

  const std::shared_ptr<NetWindow>& window() const { return window_; }

  void published(protocol::Word v, std::span<const int> readers) override;
  void freed(int writer) override;
  void wanted(int writer, protocol::Word v) override;

 private:
  const std::shared_ptr<Driver> driver_;
  const std::shared_ptr<NetWindow> window_;
};

}  // namespace kith::comm::ucx

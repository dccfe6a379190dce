#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kith/comm/mapped/context.h"
#include "kith/comm/ucx/mirror.h"
#include "kith/comm/ucx/post.h"

namespace kith::comm::ucx {

// A window shared with one worker elsewhere.
struct Side {
  Side(const protocol::Head& head, int self, Staging staging) : mirror(head, self, std::move(staging)) {}

  std::uint64_t number = 0;  // the peer's for this window; 0 until it is known
  // This worker writes, the peer reads.
  protocol::Word past = protocol::kNothing;   // the peer's word
  protocol::Word sent = protocol::kNothing;   // the last version sent
  std::vector<protocol::Word> in_flight;      // the slots of these are being read by the network
  protocol::Word asked = protocol::kNothing;  // what the peer asked for, not answered yet
  bool queued = false;                        // latest mode: the answer is among the jobs
  // The peer writes, this worker reads.
  Mirror mirror;
  protocol::Word told = protocol::kNothing;    // the word the peer was told
  protocol::Word wanted = protocol::kNothing;  // latest mode: what this reader waits for
  bool asking = false;                         // latest mode: the peer was asked, and has not answered yet
};

// A window as the network knows it. Sides are fixed after construction; what is in them belongs to the
// exchange.
struct NetWindow {
  NetWindow(std::string label, std::uint64_t id, mapped::Block block)
      : name(std::move(label)), number(id), own(std::move(block)) {}

  const std::string name;
  const std::uint64_t number;  // this worker's; peers put it in their messages
  const mapped::Block own;
  std::map<int, Side> sides;  // by worker index
  // Some peer asked for something that had not been published: the next publication looks again. Set before
  // looking at the newest version, read after publishing one.
  std::atomic<bool> curious{false};
  bool closed = false;
};

// Carries out the window protocol between machines: what a reader's and a writer's words would tell each
// other in shared memory goes through messages, and versions are sent to those who are named or ask. One
// thread at a time, the one that takes the messages.
class Exchange {
 public:
  // All outlive it.
  Exchange(mapped::Context& context, Post& post) : context_(context), post_(post) {}

  StagingPool& pool() { return pool_; }

  void add(std::shared_ptr<NetWindow> window);
  // The peer has opened it too, under that number.
  void bind(const std::shared_ptr<NetWindow>& window, int peer, std::uint64_t number);
  // Nobody here uses it any more. What was published is still sent.
  void close(const std::shared_ptr<NetWindow>& window);

  // See mapped::Link.
  void published(const std::shared_ptr<NetWindow>& window, protocol::Word v, std::span<const int> readers);
  void freed(NetWindow& window, int writer);
  void wanted(NetWindow& window, int writer, protocol::Word v);

  // A message of that peer; `handled` is told when its payload has come or was dropped. Empty, or what is
  // wrong with it.
  std::string take(int from, const Message& message, Delivery& delivery, std::function<void()> handled);

  // Starts sending what waits, while there is room.
  void pump(int peer);
  bool idle(int peer) const;  // nothing waits to be sent to that peer
  void forget(int peer);      // it is lost: nothing more goes there

 private:
  struct Job {
    std::shared_ptr<NetWindow> window;
    protocol::Word word;
  };

  void start(int peer, const Job& job);
  void start_latest(int peer, const Job& job);
  void send(int peer, const Job& job, protocol::Word v, bool pinned);
  void finish_send(int peer, NetWindow& window, protocol::Word v, bool pinned);
  void take_data(int from, const std::shared_ptr<NetWindow>& window, const DataHeader& header,
                 Delivery& delivery, std::function<void()> handled);
  void answer(const std::shared_ptr<NetWindow>& window, int peer);
  void ask(NetWindow& window, int peer, protocol::Word v);
  void show_past(NetWindow& window, int peer);
  void drop_if_done(const std::shared_ptr<NetWindow>& window);

  mapped::Context& context_;
  Post& post_;
  StagingPool pool_;
  std::unordered_map<std::uint64_t, std::shared_ptr<NetWindow>> windows_;
  std::map<int, std::deque<Job>> jobs_;  // by peer, in the order of publication
};

}  // namespace kith::comm::ucx

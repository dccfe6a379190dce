#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kith/base/log.h"
#include "kith/comm/mapped/context.h"
#include "kith/comm/mapped/window.h"
#include "kith/comm/transport.h"
#include "tests/replay/planted.h"
#include "tests/replay/records.h"

namespace kith::replay {

struct WorldOptions {
  int workers = 1;
  std::vector<int> machines = {};  // empty: one
  bool travels = false;  // what a worker published last may go down with it, for some of its readers
  bool slow = false;     // somebody is paused for longer than anybody waits: versions may be late
  Bug bug = Bug::none;
};

// The transport of replayed runs ("replay"): windows of the shipped kind (kith/comm/mapped) in heap memory.
// When a worker is gone the others hear of it one by one, at moments that the seed chooses, and what it
// published last may have reached some of them only. Every publication and every arrival is looked at
// (CheckedWindow). Threads of a Scheduler use it.
class World : public std::enable_shared_from_this<World> {
 public:
  static std::shared_ptr<World> create(const WorldOptions& options);

  // One worker's transport; destroying it is leaving in order.
  std::unique_ptr<comm::Transport> join(int worker, Log* log);
  // The network: tells of losses, for as long as the run lasts.
  void carry_news();

  const WorldOptions& options() const { return options_; }
  Records& records() { return records_; }
  // Whether what `writer` published as its `number` was still under way to the reader when it died.
  bool dropped(int writer, int reader, std::uint64_t number) const;
  void took(int writer, int reader, std::uint64_t number);
  std::set<int> lost_to(int worker) const;

 private:
  friend class Transport;
  using Key = std::pair<int, std::string>;  // from whom, window

  explicit World(const WorldOptions& options);
  std::unique_ptr<comm::Window> open(const std::shared_ptr<comm::mapped::Context>& context,
                                     const comm::WindowOptions& asked, Deadline deadline);
  comm::mapped::Block take(comm::mapped::Context& context, int from, const comm::WindowOptions& window,
                           Deadline deadline);
  void lose(int worker);
  void tell(int reader, int worker);

  const WorldOptions options_;
  const std::vector<WorkerId> workers_;
  Records records_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::multimap<Key, comm::mapped::Block>> mailboxes_;  // by addressee
  std::vector<std::shared_ptr<comm::mapped::Context>> contexts_;    // by worker
  std::vector<std::vector<std::uint64_t>> reached_;                 // [writer][reader]: taken so far
  std::vector<std::vector<std::uint64_t>> cut_;                     // what went no further
  std::multimap<Clock::Time, std::pair<int, int>> news_;            // when, to whom, of whom
};

}  // namespace kith::replay

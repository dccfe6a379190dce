#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/log.h"
#include "kith/comm/mapped/context.h"
#include "kith/comm/mapped/window.h"
#include "kith/comm/transport.h"

namespace kith::comm {

// What the workers of one process share: where they find each other's windows, and who has left. Made once,
// handed to every worker; lives as long as any transport of it. Safe from any thread.
class InprocWorld : public std::enable_shared_from_this<InprocWorld> {
 public:
  // `machines` is what Transport::machines will say (all on one, where nothing is given): threads may stand
  // for workers on several machines.
  static std::shared_ptr<InprocWorld> create(std::vector<WorkerId> workers, std::vector<int> machines = {});
  // Workers 0..n-1.
  static std::shared_ptr<InprocWorld> create(int n, std::vector<int> machines = {});

  const std::vector<WorkerId>& workers() const { return workers_; }

  // One worker's transport; destroying it makes that worker lost to the others.
  // REQUIRES: not called before for the same worker.
  std::unique_ptr<Transport> join(WorkerId self, Log* log = nullptr,
                                  Clock::Duration long_wait = std::chrono::seconds(1));

 private:
  friend class InprocTransport;
  using Key = std::pair<int, std::string>;  // from whom, window

  InprocWorld(std::vector<WorkerId> workers, std::vector<int> machines);
  void post(int from, int to, const std::string& window, const mapped::Block& block);
  // Error when the peer is lost, the deadline passes or it is cancelled before the peer has posted.
  mapped::Block take(mapped::Context& context, int from, const WindowOptions& window, Deadline deadline);
  void leave(int worker);

  const std::vector<WorkerId> workers_;
  const std::vector<int> machines_;
  std::mutex mutex_;                                          // guards what follows
  std::vector<std::condition_variable> changed_;              // by addressee
  std::vector<std::multimap<Key, mapped::Block>> mailboxes_;  // by addressee
  std::vector<std::shared_ptr<mapped::Context>> present_;     // by worker; null before and after
  std::vector<bool> left_;
};

}  // namespace kith::comm

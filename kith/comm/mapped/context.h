#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/ids.h"
#include "kith/base/log.h"
#include "kith/comm/ledger.h"
#include "kith/comm/mapped/liveness.h"

namespace kith::comm::mapped {

// What a transport and its windows share; windows keep it alive.
class Context {
 public:
  // `log` may be null; `machines` as in Transport::machines, empty: all on one. REQUIRES: `workers`
  // ascending, without repetition, `self` among them (InputError otherwise).
  Context(WorkerId self, std::vector<WorkerId> workers, Log* log, Clock::Duration long_wait,
          std::vector<int> machines = {});

  WorkerId self() const { return workers_[static_cast<std::size_t>(self_index_)]; }
  int self_index() const { return self_index_; }
  const std::vector<WorkerId>& workers() const { return workers_; }
  WorkerId worker(int index) const { return workers_[static_cast<std::size_t>(index)]; }
  // -1 when there is no such worker.
  int index_of(WorkerId worker) const;
  // REQUIRES: each is a worker.
  std::vector<int> indices_of(const std::vector<WorkerId>& some) const;

  // Equal where two workers mean the same list of workers.
  std::uint64_t workers_digest() const;

  const std::vector<int>& machines() const { return machines_; }

  Liveness& liveness() { return liveness_; }
  Log& log() const { return *log_; }
  // After how long a wait explains itself in the log.
  Clock::Duration long_wait() const { return long_wait_; }
  // True once in thirty times that: a run whose every step waits long must not drown its log.
  bool may_warn();

  // Changes one peer's line of the ledger under its lock.
  template <class Change>
  void record(int peer, Change change) {
    std::lock_guard lock(ledger_mutex_);
    change(lines_[peer]);
  }
  Ledger ledger() const;

 private:
  const std::vector<WorkerId> workers_;
  const int self_index_;
  const std::vector<int> machines_;
  NullLog silent_;
  Log* const log_;
  const Clock::Duration long_wait_;
  std::atomic<Clock::Time> warned_{Clock::Time::min()};
  Liveness liveness_;
  mutable std::mutex ledger_mutex_;  // guards lines_
  std::map<int, PeerLedger> lines_;  // by worker index; of those with whom there was something
};

}  // namespace kith::comm::mapped

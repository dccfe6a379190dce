#include "kith/comm/mapped/context.h"

#include <algorithm>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"

namespace kith::comm::mapped {
namespace {

int position(const std::vector<WorkerId>& workers, WorkerId worker) {
  const auto found = std::lower_bound(workers.begin(), workers.end(), worker);
  return found != workers.end() && *found == worker ? static_cast<int>(found - workers.begin()) : -1;
}

int checked_position(const std::vector<WorkerId>& workers, WorkerId self) {
  for (std::size_t i = 1; i < workers.size(); ++i) {
    if (workers[i - 1] < workers[i]) continue;
    throw InputError(cat(workers[i], " follows ", workers[i - 1]), "workers of a transport",
                     "list every worker once, ascending");
  }
  const int index = position(workers, self);
  if (index < 0) {
    throw InputError(cat(self, " is not among the ", workers.size(), " workers"), "workers of a transport",
                     "a worker must be listed itself");
  }
  return index;
}

}  // namespace

Context::Context(WorkerId self, std::vector<WorkerId> workers, Log* log, Clock::Duration long_wait,
                 std::vector<int> machines)
    : workers_(std::move(workers)),
      self_index_(checked_position(workers_, self)),
      machines_(machines.empty() ? std::vector<int>(workers_.size()) : std::move(machines)),
      log_(log != nullptr ? log : &silent_),
      long_wait_(long_wait),
      liveness_(workers_.size()) {
  KITH_CHECK_EQ(machines_.size(), workers_.size(), "one machine per worker");
}

int Context::index_of(WorkerId worker) const {
  return position(workers_, worker);
}

std::uint64_t Context::workers_digest() const {
  std::uint64_t sum = 0;
  for (const WorkerId worker : workers_)
    sum = hash_words(sum, worker.value);
  return sum;
}

std::vector<int> Context::indices_of(const std::vector<WorkerId>& some) const {
  std::vector<int> indices;
  for (WorkerId worker : some)
    indices.push_back(index_of(worker));
  return indices;
}

bool Context::may_warn() {
  const Clock::Time now = SteadyClock().now();
  Clock::Time before = warned_.load();
  return now - 30 * long_wait_ >= before && warned_.compare_exchange_strong(before, now);
}

Ledger Context::ledger() const {
  std::lock_guard lock(ledger_mutex_);
  Ledger ledger;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (index == self_index_) continue;
    const auto found = lines_.find(index);
    PeerLedger& line = ledger[workers_[i]] = found == lines_.end() ? PeerLedger{} : found->second;
    line.other_machine = machines_[i] != machines_[static_cast<std::size_t>(self_index_)];
  }
  return ledger;
}

}  // namespace kith::comm::mapped

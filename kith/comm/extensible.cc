#include "kith/comm/extensible.h"

#include <algorithm>
#include <utility>

#include "kith/comm/inproc/world.h"
#include "kith/comm/prefix_store.h"

namespace kith::comm {
namespace {

void add_to(Ledger& sum, const Ledger& more) {
  for (const auto& [peer, line] : more) {
    PeerLedger& into = sum[peer];
    into.other_machine = into.other_machine || line.other_machine;
    into.arrivals += line.arrivals;
    into.bytes_read += line.bytes_read;
    into.late += line.late;
    into.lost += line.lost;
    into.waited += line.waited;
    into.longest_wait = std::max(into.longest_wait, line.longest_wait);
    into.versions_named += line.versions_named;
    into.bytes_offered += line.bytes_offered;
    into.held_up += line.held_up;
  }
}

bool has(const std::vector<WorkerId>& workers, WorkerId worker) {
  return std::ranges::find(workers, worker) != workers.end();
}

}  // namespace

MakeGeneration generations_of_processes(std::string backend, TransportOptions options) {
  // What lives as long as the transport that uses it.
  struct Held {
    Held(Store& store, const std::string& prefix) : keys(store, prefix) {}
    PrefixStore keys;
    std::shared_ptr<Losses> losses;
    std::shared_ptr<const void> news;
    std::unique_ptr<Transport> transport;
  };
  return [backend = std::move(backend), options = std::move(options)](const std::string& name,
                                                                      const std::vector<WorkerId>& workers) {
    const auto held = std::make_shared<Held>(*options.store, name + "/");
    TransportOptions own = options;
    own.workers = workers;
    own.store = &held->keys;
    if (options.losses) {
      // Those of other generations are no reason to end a meeting of this one.
      held->losses = own.losses = std::make_shared<Losses>();
      held->news = options.losses->listen([losses = held->losses.get(), workers](WorkerId worker) {
        if (has(workers, worker)) losses->tell(worker);
      });
    }
    held->transport = make_transport(backend, own);
    return std::shared_ptr<Transport>(held, held->transport.get());
  };
}

std::shared_ptr<InprocWorld> InprocGenerations::world(const std::string& name,
                                                      const std::vector<WorkerId>& workers) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<InprocWorld>& world = worlds_[name];
  if (!world) world = InprocWorld::create(workers);
  return world;
}

MakeGeneration generations_of_threads(std::shared_ptr<InprocGenerations> shared, WorkerId self, Log* log) {
  return
      [shared = std::move(shared), self, log](const std::string& name, const std::vector<WorkerId>& workers) {
        return std::shared_ptr<Transport>(shared->world(name, workers)->join(self, log));
      };
}

ExtensibleTransport::ExtensibleTransport(std::shared_ptr<Transport> first, MakeGeneration make)
    : self_(first->self()), backend_(first->backend()), make_(std::move(make)) {
  add(std::move(first));
}

ExtensibleTransport::~ExtensibleTransport() = default;

void ExtensibleTransport::add(std::shared_ptr<Transport> transport) {
  Generation& added = generations_.emplace_back();
  added.workers = transport->workers();
  added.machines = transport->machines();
  added.transport = std::move(transport);
}

std::shared_ptr<Transport> ExtensibleTransport::extend(const std::string& name,
                                                       const std::vector<WorkerId>& workers) const {
  return make_(name, workers);
}

void ExtensibleTransport::move_to(std::shared_ptr<Transport> generation) {
  const std::lock_guard lock(mutex_);
  add(std::move(generation));
  if (generations_.size() < 3) return;
  Generation& old = generations_[generations_.size() - 3];
  old.ledger = old.transport->ledger();
  ending_ = std::jthread([ends = std::move(old.transport)]() mutable { ends.reset(); });
}

const std::vector<WorkerId>& ExtensibleTransport::workers() const {
  const std::lock_guard lock(mutex_);
  return generations_.back().workers;
}

const std::vector<int>& ExtensibleTransport::machines() const {
  const std::lock_guard lock(mutex_);
  return generations_.back().machines;
}

bool ExtensibleTransport::device_windows() const {
  const std::lock_guard lock(mutex_);
  return current()->device_windows();
}

std::unique_ptr<Window> ExtensibleTransport::open(const WindowOptions& options, Deadline deadline) {
  std::shared_ptr<Transport> in_use;
  {
    const std::lock_guard lock(mutex_);
    in_use = current();
  }
  return in_use->open(options, deadline);
}

bool ExtensibleTransport::lost(WorkerId peer) const {
  const std::lock_guard lock(mutex_);
  for (auto generation = generations_.rbegin(); generation != generations_.rend(); ++generation) {
    if (std::ranges::binary_search(generation->workers, peer))
      return !generation->transport || generation->transport->lost(peer);
  }
  return true;
}

Ledger ExtensibleTransport::ledger() const {
  const std::lock_guard lock(mutex_);
  Ledger sum;
  for (const Generation& generation : generations_)
    add_to(sum, generation.transport ? generation.transport->ledger() : generation.ledger);
  return sum;
}

}  // namespace kith::comm

#include "tests/replay/world.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/pin.h"
#include "kith/base/text.h"
#include "kith/comm/mapped/wait_note.h"
#include "kith/comm/protocol/layout.h"
#include "tests/replay/checked_window.h"
#include "tests/replay/scheduler.h"

namespace kith::replay {
namespace {

using comm::mapped::Block;
using comm::mapped::Context;
using comm::protocol::Control;
using comm::protocol::Head;

constexpr int kUnlucky = 1;  // see planted.cc
constexpr std::uint64_t kNotCut = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMostDropped = 8;

Block make_block(const Head& head) {
  const std::size_t control_bytes = whole_pages(Control::size_of(head));
  const std::size_t payload_bytes = whole_pages(comm::protocol::payload_size(head));
  const std::align_val_t page{kPinPage};
  const std::shared_ptr<std::byte> memory(
      static_cast<std::byte*>(::operator new(control_bytes + payload_bytes, page)),
      [page](std::byte* p) { ::operator delete(p, page); });
  std::memset(memory.get(), 0, control_bytes + payload_bytes);
  return {Control::create(memory.get(), head), memory.get() + control_bytes, memory};
}

}  // namespace

class Transport final : public comm::Transport {
 public:
  Transport(std::shared_ptr<World> world, std::shared_ptr<Context> context)
      : world_(std::move(world)), context_(std::move(context)) {}
  ~Transport() override { Scheduler::current()->leave(); }
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  std::string_view backend() const override { return "replay"; }
  WorkerId self() const override { return context_->self(); }
  const std::vector<WorkerId>& workers() const override { return context_->workers(); }
  const std::vector<int>& machines() const override { return context_->machines(); }
  std::unique_ptr<comm::Window> open(const comm::WindowOptions& options, Deadline deadline) override {
    return world_->open(context_, options, deadline);
  }
  bool lost(WorkerId peer) const override { return context_->liveness().lost(context_->index_of(peer)); }
  comm::Ledger ledger() const override { return context_->ledger(); }

 private:
  const std::shared_ptr<World> world_;
  const std::shared_ptr<Context> context_;
};

std::shared_ptr<World> World::create(const WorldOptions& options) {
  return std::shared_ptr<World>(new World(options));
}

World::World(const WorldOptions& options)
    : options_(options),
      workers_(Members::first(options.workers).workers),
      records_(options.workers),
      mailboxes_(workers_.size()),
      contexts_(workers_.size()),
      reached_(workers_.size(), std::vector<std::uint64_t>(workers_.size(), 0)),
      cut_(workers_.size(), std::vector<std::uint64_t>(workers_.size(), kNotCut)) {}

std::unique_ptr<comm::Transport> World::join(int worker, Log* log) {
  auto context =
      std::make_shared<Context>(WorkerId{worker}, workers_, log, std::chrono::seconds(1), options_.machines);
  {
    const std::lock_guard lock(mutex_);
    contexts_[static_cast<std::size_t>(worker)] = context;
  }
  return std::make_unique<Transport>(shared_from_this(), std::move(context));
}

std::unique_ptr<comm::Window> World::open(const std::shared_ptr<Context>& context,
                                          const comm::WindowOptions& asked, Deadline deadline) {
  comm::WindowOptions options = comm::mapped::checked(asked, *context);
  const int self = context->self_index();
  Scheduler::current()->point(Point::window, cat("open ", options.name));
  const Head head = Head::of(options, options_.workers);
  const Block own = make_block(head);
  for (const WorkerId peer : options.peers) {
    const std::lock_guard lock(mutex_);
    mailboxes_[static_cast<std::size_t>(peer.value)].emplace(Key{self, options.name}, own);
    changed_.notify_all();
  }
  std::vector<comm::mapped::PeerBlock> peers;
  for (const WorkerId peer : options.peers) {
    Block block = take(*context, peer.value, options, deadline);
    comm::protocol::check_same(options.name, context->self(), head, peer, block.control.head());
    peers.push_back({peer.value, std::move(block)});
  }
  std::unique_ptr<comm::Window> window =
      std::make_unique<comm::mapped::MappedWindow>(context, std::move(options), own, std::move(peers));
  const bool above = is_of_the_engine(options_.bug);
  window = with_bug(above ? Bug::none : options_.bug, std::move(window));
  window = std::make_unique<CheckedWindow>(shared_from_this(), self, std::move(window));
  return with_bug(above ? options_.bug : Bug::none, std::move(window));
}

Block World::take(Context& context, int from, const comm::WindowOptions& window, Deadline deadline) {
  comm::mapped::WaitNote note(context, window.name);
  auto& mailbox = mailboxes_[static_cast<std::size_t>(context.self_index())];
  std::unique_lock lock(mutex_);
  while (true) {
    if (const auto found = mailbox.find(Key{from, window.name}); found != mailbox.end())
      return std::move(mailbox.extract(found).mapped());
    const std::string place = cat(context.self(), " opens window '", window.name, "'");
    comm::mapped::check_going_on(window, place);
    if (context.liveness().lost(from)) throw Error(cat("worker ", from, " is lost"), place);
    if (SteadyClock().now() >= deadline)
      throw Error(cat("worker ", from, " has not opened it in time"), place);
    note.explain("waits for", from);
    changed_.wait_until(lock, note.look_by(deadline));
  }
}

// ---- losses

void World::carry_news() {
  Scheduler& scheduler = *Scheduler::current();
  while (true) {
    const Deadline next = news_.empty() ? Deadline::max() : news_.begin()->first;
    const int gone = scheduler.next_death(next);
    if (gone >= 0) lose(gone);
    while (!news_.empty() && news_.begin()->first <= scheduler.now()) {
      const auto [reader, worker] = news_.begin()->second;
      news_.erase(news_.begin());
      tell(reader, worker);
    }
  }
}

void World::lose(int worker) {
  Scheduler& scheduler = *Scheduler::current();
  const auto death =
      std::ranges::find_if(scheduler.deaths(), [&](const Death& d) { return d.worker == worker; });
  for (int reader = 0; reader < options_.workers; ++reader) {
    if (reader == worker) continue;
    // Mostly soon, sometimes late, sometimes at once.
    const std::uint64_t most[] = {1, 2'000, 2'000, 400'000};
    const auto delay = std::chrono::microseconds(scheduler.below(most[scheduler.below(4)]));
    if (options_.bug == Bug::loss_is_not_told && reader == kUnlucky) continue;
    news_.emplace(scheduler.now() + delay, std::pair{reader, worker});
    if (options_.bug == Bug::loss_of_the_living && reader != kUnlucky)
      news_.emplace(scheduler.now() + delay, std::pair{reader, kUnlucky});
    if (!options_.travels || death->orderly || scheduler.below(2) == 0) continue;
    const std::uint64_t all = records_.published(worker);
    const std::uint64_t dropped = std::min(all, scheduler.below(kMostDropped + 1));
    cut_[static_cast<std::size_t>(worker)][static_cast<std::size_t>(reader)] =
        std::max(all - dropped, reached_[static_cast<std::size_t>(worker)][static_cast<std::size_t>(reader)]);
  }
}

void World::tell(int reader, int worker) {
  std::shared_ptr<Context> context;
  {
    const std::lock_guard lock(mutex_);
    context = contexts_[static_cast<std::size_t>(reader)];
  }
  if (!context || Scheduler::current()->dead(reader)) return;
  context->liveness().mark_lost(worker);
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

bool World::dropped(int writer, int reader, std::uint64_t number) const {
  return number > cut_[static_cast<std::size_t>(writer)][static_cast<std::size_t>(reader)];
}

void World::took(int writer, int reader, std::uint64_t number) {
  std::uint64_t& reached = reached_[static_cast<std::size_t>(writer)][static_cast<std::size_t>(reader)];
  reached = std::max(reached, number);
}

std::set<int> World::lost_to(int worker) const {
  std::set<int> lost;
  for (int other = 0; other < options_.workers; ++other) {
    if (contexts_[static_cast<std::size_t>(worker)]->liveness().lost(other)) lost.insert(other);
  }
  return lost;
}

}  // namespace kith::replay

#include "kith/comm/inproc/world.h"

#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/inproc/transport.h"
#include "kith/comm/mapped/wait_note.h"

namespace kith::comm {

InprocWorld::InprocWorld(std::vector<WorkerId> workers, std::vector<int> machines)
    : workers_(std::move(workers)),
      machines_(std::move(machines)),
      changed_(workers_.size()),
      mailboxes_(workers_.size()),
      present_(workers_.size()),
      left_(workers_.size(), false) {}

std::shared_ptr<InprocWorld> InprocWorld::create(std::vector<WorkerId> workers, std::vector<int> machines) {
  return std::shared_ptr<InprocWorld>(new InprocWorld(std::move(workers), std::move(machines)));
}

std::shared_ptr<InprocWorld> InprocWorld::create(int n, std::vector<int> machines) {
  return create(Members::first(n).workers, std::move(machines));
}

std::unique_ptr<Transport> InprocWorld::join(WorkerId self, Log* log, Clock::Duration long_wait) {
  auto context = std::make_shared<mapped::Context>(self, workers_, log, long_wait, machines_);
  const auto index = static_cast<std::size_t>(context->self_index());
  {
    std::lock_guard lock(mutex_);
    KITH_CHECK(present_[index] == nullptr && !left_[index], cat(self, " joins its world twice"));
    present_[index] = context;
    for (std::size_t i = 0; i < left_.size(); ++i) {
      if (left_[i]) context->liveness().mark_lost(static_cast<int>(i));
    }
  }
  return std::make_unique<InprocTransport>(shared_from_this(), std::move(context));
}

void InprocWorld::post(int from, int to, const std::string& window, const mapped::Block& block) {
  std::lock_guard lock(mutex_);
  mailboxes_[static_cast<std::size_t>(to)].emplace(Key{from, window}, block);
  changed_[static_cast<std::size_t>(to)].notify_all();
}

mapped::Block InprocWorld::take(mapped::Context& context, int from, const WindowOptions& window,
                                Deadline deadline) {
  mapped::WaitNote note(context, window.name);
  auto& mailbox = mailboxes_[static_cast<std::size_t>(context.self_index())];
  std::unique_lock lock(mutex_);
  for (;;) {
    // Equal keys keep their order: a name that is opened again meets the peer's next window of that name.
    if (const auto found = mailbox.find(Key{from, window.name}); found != mailbox.end()) {
      return std::move(mailbox.extract(found).mapped());
    }
    const std::string place = cat(context.self(), " opens window '", window.name, "'");
    mapped::check_going_on(window, place);
    if (left_[static_cast<std::size_t>(from)]) {
      throw Error(cat(context.worker(from), " is lost"), place, "open it among those who are left");
    }
    if (SteadyClock().now() >= deadline) {
      throw Error(cat(context.worker(from), " has not opened it before the deadline"), place,
                  "every worker must open the same windows in the same order");
    }
    note.explain("waits for", from);
    changed_[static_cast<std::size_t>(context.self_index())].wait_until(lock, note.look_by(deadline));
  }
}

void InprocWorld::leave(int worker) {
  std::lock_guard lock(mutex_);
  left_[static_cast<std::size_t>(worker)] = true;
  present_[static_cast<std::size_t>(worker)] = nullptr;
  mailboxes_[static_cast<std::size_t>(worker)].clear();
  for (const auto& context : present_) {
    if (context != nullptr) context->liveness().mark_lost(worker);
  }
  for (std::condition_variable& changed : changed_)
    changed.notify_all();
}

}  // namespace kith::comm

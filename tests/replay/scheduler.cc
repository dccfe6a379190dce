#include "tests/replay/scheduler.h"

#include <algorithm>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/text.h"
#include "tests/replay/real.h"

namespace kith::replay {
namespace {

constexpr Clock::Duration kPoint = std::chrono::microseconds(1);
constexpr int kEverybody = 1 << 20;
constexpr Clock::Duration kShort = std::chrono::milliseconds(100);  // deadlines that a hurry brings
constexpr Clock::Time kMostTime{std::chrono::hours(10)};

thread_local void* own_task = nullptr;

void give_turn(std::atomic<std::uint32_t>& turn) {
  turn.store(1);
  real::wake(turn);
}

void await_turn(std::atomic<std::uint32_t>& turn) {
  while (turn.exchange(0) == 0)
    real::sleep_while(turn, 0);
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options)
    : options_(std::move(options)),
      rng_(hash_words(options_.seed, 1)),
      stays_(1 + rng_.below(15)),
      hurry_(rng_.below(3) == 0 ? 16 + rng_.below(200) : 0),
      slow_(rng_.below(3) == 0 ? static_cast<int>(rng_.below(4)) : -1),
      faults_(options_.faults) {}

// ---- threads

Scheduler* Scheduler::current() {
  return own_task == nullptr ? nullptr : static_cast<Task*>(own_task)->scheduler;
}

Scheduler::Task& Scheduler::self() const {
  return *static_cast<Task*>(own_task);
}

int Scheduler::worker() const {
  return self().worker;
}

Scheduler::Task& Scheduler::add_task(int worker) {
  Task& task = *tasks_.emplace_back(std::make_unique<Task>());
  task.id = static_cast<int>(tasks_.size()) - 1;
  task.worker = worker;
  task.scheduler = this;
  return task;
}

void* Scheduler::trampoline(void* argument) {
  Task& task = *static_cast<Task*>(argument);
  own_task = &task;
  await_turn(task.turn);
  void* const result = task.body(task.argument);
  task.state = State::ended;
  Scheduler& scheduler = *task.scheduler;
  scheduler.wake(&task, kEverybody);
  if (task.worker >= 0) scheduler.settle(task.worker);
  Task* const next = scheduler.choose(task);
  own_task = nullptr;
  if (next != nullptr) {
    give_turn(next->turn);
  } else {
    scheduler.finish();
  }
  return result;
}

int Scheduler::start(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                     void* argument) {
  Task& task = add_task(self().worker);
  task.body = body;
  task.argument = argument;
  const int status = real::create_thread(&task.thread, attributes, trampoline, &task);
  KITH_CHECK_EQ(status, 0, "a thread can be started");
  *thread = task.thread;
  point(Point::thread);
  return 0;
}

void Scheduler::join(pthread_t thread) {
  // Handles are used again: the latest one is meant.
  for (auto task = tasks_.rbegin(); task != tasks_.rend(); ++task) {
    if (!pthread_equal((*task)->thread, thread)) continue;
    const Task& other = **task;
    self().what = cat("join of thread ", other.id);
    while (other.state != State::ended)
      block(self(), &other, Deadline::max());
    return;
  }
}

void Scheduler::run(const std::vector<std::function<void()>>& bodies, std::function<void()> network) {
  workers_.resize(bodies.size());
  std::vector<std::function<void()>> all = bodies;
  all.push_back(std::move(network));
  for (std::size_t i = 0; i < all.size(); ++i) {
    Task& task = add_task(i < bodies.size() ? static_cast<int>(i) : -1);
    task.body = [](void* body) -> void* {
      (*static_cast<std::function<void()>*>(body))();
      return nullptr;
    };
    task.argument = &all[i];
    KITH_CHECK_EQ(real::create_thread(&task.thread, nullptr, trampoline, &task), 0,
                  "a thread can be started");
  }
  Task outside;
  outside.state = State::ended;
  give_turn(choose(outside)->turn);
  while (done_.load() == 0)
    real::sleep_while(done_, 0);
}

bool Scheduler::everybody_ended() const {
  return std::ranges::all_of(tasks_, [](const auto& task) {
    return task->worker < 0 || task->state == State::ended || task->state == State::frozen;
  });
}

void Scheduler::finish() {
  give_turn(done_);
}

void Scheduler::sleep_for_good(Task& task) {
  while (true)
    await_turn(task.turn);
}

void Scheduler::fail(const std::string& text) {
  if (failure_.empty()) failure_ = text;
  finish();
  sleep_for_good(self());
}

std::string Scheduler::account() const {
  std::string text;
  for (const auto& task : tasks_) {
    if (task->state == State::ended || task->state == State::frozen || task->worker < 0) continue;
    text +=
        cat(text.empty() ? "" : "; ", "worker ", task->worker, " thread ", task->id, " is at ", task->what);
  }
  return text;
}

// ---- turns

bool Scheduler::may_run(const Task& task) const {
  if (task.state != State::ready) return false;
  if (task.worker < 0 || task.held > 0) return true;
  return workers_[static_cast<std::size_t>(task.worker)].paused_until <= now_;
}

void Scheduler::wake_expired() {
  for (const auto& task : tasks_) {
    if (task->state != State::blocked || task->deadline > now_) continue;
    task->state = State::ready;
    task->expired = true;
  }
}

bool Scheduler::advance_time() {
  Clock::Time next = Clock::Time::max();
  for (const auto& task : tasks_) {
    if (task->state == State::blocked) next = std::min(next, task->deadline);
    if (task->state == State::ready && task->worker >= 0)
      next = std::min(next, workers_[static_cast<std::size_t>(task->worker)].paused_until);
  }
  if (next == Clock::Time::max()) return false;
  now_ = std::max(now_, next);
  wake_expired();
  return true;
}

Scheduler::Task* Scheduler::choose(Task& from) {
  wake_expired();
  while (true) {
    if (everybody_ended() || !failure_.empty()) return nullptr;
    std::vector<Task*> candidates;
    for (const auto& task : tasks_)
      if (may_run(*task)) candidates.push_back(task.get());
    if (candidates.size() > 1 && slow_ >= 0 && rng_.below(8) != 0) {
      std::vector<Task*> others = candidates;
      std::erase_if(others, [&](const Task* task) { return task->worker == slow_; });
      if (!others.empty()) candidates = std::move(others);
    }
    if (!candidates.empty()) {
      const bool can_stay = std::ranges::find(candidates, &from) != candidates.end();
      Task* const next =
          can_stay && rng_.below(16) < stays_ ? &from : candidates[rng_.below(candidates.size())];
      digest_ = hash_words(digest_, next->id);
      return next;
    }
    if (now_ > kMostTime || !advance_time()) {
      failure_ = cat("nobody can go on: ", account());
      return nullptr;
    }
  }
}

void Scheduler::pass_turn(Task& from) {
  Task* const next = choose(from);
  if (next == &from) return;
  if (next != nullptr) {
    give_turn(next->turn);
  } else {
    finish();
  }
  await_turn(from.turn);
}

bool Scheduler::block(Task& task, const void* on, Deadline deadline) {
  if (deadline <= now_) {
    point(Point::sleep);
    return false;
  }
  task.state = State::blocked;
  task.waits_for = on;
  task.deadline = deadline;
  task.expired = false;
  pass_turn(task);
  task.deadline = Deadline::max();
  task.waits_for = nullptr;
  return !task.expired;
}

void Scheduler::wake(const void* on, int most) {
  std::vector<Task*> waiting;
  for (const auto& task : tasks_)
    if (task->state == State::blocked && task->waits_for == on) waiting.push_back(task.get());
  for (; !waiting.empty() && most > 0; --most) {
    const std::size_t k = rng_.below(waiting.size());
    waiting[k]->state = State::ready;
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

void Scheduler::point(Point kind, std::string_view what) {
  Task& task = self();
  if (!what.empty()) task.what = what;
  now_ += kPoint;
  if (++all_points_ > options_.most_points) fail(cat("it does not end: ", account()));
  digest_ = hash_words(digest_, task.id, kind, now_.time_since_epoch().count());
  if (task.worker >= 0) {
    apply_faults(task);
    freeze_if_dying(task);
  }
  if (hurry_ > 0 && rng_.below(hurry_) == 0) {
    Clock::Time next = Clock::Time::max();
    for (const auto& other : tasks_)
      if (other->state == State::blocked) next = std::min(next, other->deadline);
    if (next < now_ + kShort) now_ = std::max(now_, next);
  }
  pass_turn(task);
}

// ---- what the C library would do

void Scheduler::lock(const void* mutex, bool recursive) {
  Task& task = self();
  if (rng_.below(4) == 0) point(Point::lock);
  while (!try_lock(mutex, recursive)) {
    task.what = "a mutex";
    block(task, mutex, Deadline::max());
  }
}

bool Scheduler::try_lock(const void* mutex, bool recursive) {
  Task& task = self();
  Owner& owner = owners_[mutex];
  if (owner.task != nullptr && !(recursive && owner.task == &task)) return false;
  owner.task = &task;
  ++owner.depth;
  ++task.held;
  return true;
}

void Scheduler::unlock(const void* mutex) {
  Task& task = self();
  const auto owner = owners_.find(mutex);
  if (owner == owners_.end()) return;  // locked before the run began
  --task.held;
  if (--owner->second.depth > 0) return;
  owners_.erase(owner);
  wake(mutex, kEverybody);
  freeze_if_dying(task);
}

bool Scheduler::wait(const void* condition, const void* mutex, Deadline deadline) {
  Task& task = self();
  const auto owner = owners_.find(mutex);
  const bool owned = owner != owners_.end();
  if (owned) {
    owners_.erase(owner);
    --task.held;
    wake(mutex, kEverybody);
    freeze_if_dying(task);
  }
  const bool in_time = block(task, condition, deadline);
  if (owned) {
    while (!try_lock(mutex, false))
      block(task, mutex, Deadline::max());
  }
  return in_time;
}

void Scheduler::notify(const void* condition, bool all) {
  wake(condition, all ? kEverybody : 1);
  if (rng_.below(4) == 0) point(Point::condition);
}

bool Scheduler::futex_wait(const void* word, Deadline deadline) {
  return block(self(), word, deadline);
}

int Scheduler::futex_wake(const void* word, int most) {
  wake(word, most);
  if (rng_.below(4) == 0) point(Point::futex);
  return 1;
}

void Scheduler::sleep_until(Deadline deadline) {
  block(self(), &self(), deadline);
}

}  // namespace kith::replay

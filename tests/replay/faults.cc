// What befalls workers, and who is dead.
#include <algorithm>
#include <utility>

#include "kith/base/text.h"
#include "tests/replay/scheduler.h"

namespace kith::replay {

std::string text_of(const Fault& fault) {
  const char* const verb = fault.kind == Fault::Kind::kill ? "kill" : "pause";
  return cat(verb, " worker ", fault.worker, " after ", fault.points, " points",
             fault.at.empty() ? "" : cat(" at '", fault.at, "'"),
             fault.since == Fault::Since::first_death ? " since the first death" : "",
             fault.kind == Fault::Kind::pause ? cat(", for ", seconds(fault.pause), " s") : "");
}

void Scheduler::expose() {
  workers_[static_cast<std::size_t>(worker())].exposed = true;
}

void Scheduler::spare_everybody() {
  sparing_ = true;
  for (OfWorker& worker : workers_)
    worker.paused_until = now_;
}

void Scheduler::apply_faults(Task& task) {
  OfWorker& worker = workers_[static_cast<std::size_t>(task.worker)];
  if (!worker.exposed || worker.dying || sparing_) return;
  ++worker.points;
  for (auto fault = faults_.begin(); fault != faults_.end();) {
    const bool counted = fault->since == Fault::Since::start || anybody_died_;
    const std::uint64_t from = fault->since == Fault::Since::start ? 0 : worker.points_at_first_death;
    bool due = fault->worker == task.worker && counted;
    if (due && fault->at.empty()) due = worker.points >= from + fault->points;
    if (due && !fault->at.empty())
      due = task.what.find(fault->at) != std::string::npos && fault->points-- == 0;
    if (!due) {
      ++fault;
      continue;
    }
    const Fault now = *fault;
    fault = faults_.erase(fault);
    if (now.kind == Fault::Kind::pause) {
      worker.paused_until = now_ + now.pause;
    } else {
      return kill(task.worker, task);
    }
  }
}

void Scheduler::kill(int worker, Task& from) {
  workers_[static_cast<std::size_t>(worker)].dying = true;
  deaths_.push_back({worker, from.what, false});
  for (const auto& task : tasks_) {
    if (task->worker == worker && task->held == 0 && task.get() != &from && task->state != State::ended)
      task->state = State::frozen;
  }
}

void Scheduler::freeze_if_dying(Task& task) {
  if (task.worker < 0 || task.held > 0 || !workers_[static_cast<std::size_t>(task.worker)].dying) return;
  task.state = State::frozen;
  settle(task.worker);
  pass_turn(task);
  sleep_for_good(task);
}

// A worker whose last thread has stopped is dead.
void Scheduler::settle(int worker) {
  OfWorker& of = workers_[static_cast<std::size_t>(worker)];
  const bool stopped = std::ranges::all_of(tasks_, [&](const auto& task) {
    return task->worker != worker || task->state == State::ended || task->state == State::frozen;
  });
  if (!of.dying || of.dead || !stopped) return;
  of.dead = true;
  if (!std::exchange(anybody_died_, true)) {
    for (OfWorker& other : workers_)
      other.points_at_first_death = other.points;
  }
  wake(&deaths_, 1);
}

void Scheduler::leave() {
  deaths_.push_back({worker(), "its end", true});
  workers_[static_cast<std::size_t>(worker())].dead = true;
  wake(&deaths_, 1);
}

int Scheduler::next_death(Deadline deadline) {
  while (true) {
    for (std::size_t k = told_; k < deaths_.size(); ++k) {
      if (!dead(deaths_[k].worker)) continue;
      std::swap(deaths_[k], deaths_[told_]);
      return deaths_[told_++].worker;
    }
    if (!block(self(), &deaths_, deadline)) return -1;
  }
}

}  // namespace kith::replay

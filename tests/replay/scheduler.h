#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <pthread.h>

#include "kith/base/clock.h"
#include "kith/base/rng.h"

namespace kith::replay {

// What a thread is about to do where another one may go on instead.
enum class Point : std::uint8_t { lock, unlock, condition, futex, sleep, join, thread, window, store };

// What befalls a worker, and when.
struct Fault {
  enum class Kind : std::uint8_t { kill, pause };
  // The points that the worker comes to, counted from the start of the run, or from the first death; with
  // `at` those at which it is at that.
  enum class Since : std::uint8_t { start, first_death };

  Kind kind = Kind::kill;
  int worker = 0;
  Since since = Since::start;
  std::uint64_t points = 0;
  Clock::Duration pause{};
  std::string at = {};  // a part of what it is at: "publish", "/outcome"
};
std::string text_of(const Fault& fault);

// What a worker was at when it died.
struct Death {
  int worker = 0;
  std::string at;        // "window: publish", "store: set views/model/1/at/2", "mutex"
  bool orderly = false;  // it left at its end
};

struct SchedulerOptions {
  std::uint64_t seed = 0;
  std::vector<Fault> faults;
  std::uint64_t most_points = 3'000'000;  // of all workers; more than that is a run that does not end
};

// Note [One at a time]
// A run whose every interleaving comes from a seed. Workers are threads, and so is what they start
// themselves: the watcher of the views, threads that average. But only one of all of them runs at a time. At
// a mutex, a condition variable, a futex, a sleep, the start and the end of a thread, and at each call of a
// window or of the store, the seed says who goes on. Time stands still while anybody can go on, but for a
// microsecond a point, and then jumps to the next deadline, so that waits cost nothing.
//
// The code under test is the shipped one, unchanged: interpose.cc stands between it and the C library, and
// hands the calls of managed threads to the scheduler. The threads of the test itself are left alone.
//
// A worker that is killed stops: none of its threads ever runs again, nothing is destroyed, and its memory
// stays as it was, as with SIGKILL. A thread that holds a mutex goes on until it has let go of it, since
// workers of one process share some (of the memory store, of the world) that processes would not.
//
// Not controlled: what happens between two points. A thread that is killed or preempted has always finished
// the instructions up to the next point, so a reader never sees half a memcpy; and weak memory does not show,
// since the threads take turns.
class Scheduler {
 public:
  static constexpr Clock::Time kBeginning{std::chrono::seconds(1000)};  // of the run's own time

  explicit Scheduler(SchedulerOptions options);

  // Runs worker i's body on a thread, and `network` on another, which belongs to no worker. Returns when
  // every worker has ended or died, or when nobody can go on. Threads of the dead, and those of a run that
  // failed, are left behind, asleep: the process ends by _exit. Once in a process.
  void run(const std::vector<std::function<void()>>& bodies, std::function<void()> network);

  // Empty when everybody ended; else who waits for what.
  const std::string& failure() const { return failure_; }
  const std::vector<Death>& deaths() const { return deaths_; }
  // Of everything that was decided; equal for equal runs.
  std::uint64_t digest() const { return digest_; }
  std::uint64_t points() const { return all_points_; }
  std::uint64_t points_of(int worker) const { return workers_[static_cast<std::size_t>(worker)].points; }
  Clock::Time now() const { return now_; }

  // ---- for managed threads
  static Scheduler* current();  // null: this thread is not managed
  // `what` is kept for the account of a death; it may be a temporary.
  void point(Point kind, std::string_view what = {});
  int worker() const;
  bool dead(int worker) const { return workers_[static_cast<std::size_t>(worker)].dead; }
  // From now on faults befall the worker of this thread, and its points are counted for them.
  void expose();
  // No faults from now on, and no pauses: the runs of the survivors come to their end.
  void spare_everybody();
  // Ends the run: something is wrong.
  [[noreturn]] void fail(const std::string& text);
  // The worker of this thread leaves in order.
  void leave();
  // A death, or a leaving, that nobody was told of yet; -1 at the deadline. For the network's thread.
  int next_death(Deadline deadline);
  // A draw of the run's own sequence.
  std::uint64_t below(std::uint64_t bound) { return rng_.below(bound); }

  // ---- for interpose.cc
  void lock(const void* mutex, bool recursive);
  bool try_lock(const void* mutex, bool recursive);
  void unlock(const void* mutex);
  bool wait(const void* condition, const void* mutex, Deadline deadline);  // false at the deadline
  void notify(const void* condition, bool all);
  bool futex_wait(const void* word, Deadline deadline);
  int futex_wake(const void* word, int most);
  void sleep_until(Deadline deadline);
  int start(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument);
  void join(pthread_t thread);

 private:
  enum class State : std::uint8_t { ready, blocked, frozen, ended };
  struct Task {
    int id = 0;
    int worker = -1;  // -1: the network
    State state = State::ready;
    const void* waits_for = nullptr;  // where blocked
    std::string what;                 // it is at
    Deadline deadline = Deadline::max();
    bool expired = false;
    int held = 0;  // mutexes
    std::atomic<std::uint32_t> turn{0};
    pthread_t thread{};
    void* (*body)(void*) = nullptr;
    void* argument = nullptr;
    Scheduler* scheduler = nullptr;
  };
  struct Owner {
    Task* task = nullptr;
    int depth = 0;
  };
  struct OfWorker {
    std::uint64_t points = 0;
    std::uint64_t points_at_first_death = 0;
    bool exposed = false;
    bool dying = false;
    bool dead = false;
    Clock::Time paused_until{};
  };

  static void* trampoline(void* task);
  Task& self() const;
  Task& add_task(int worker);
  void begin_thread(Task& task);
  // Somebody else's turn, by the seed; returns when it is this thread's again.
  void pass_turn(Task& from);
  Task* choose(Task& from);
  bool may_run(const Task& task) const;
  void wake_expired();
  // To the next moment at which somebody can go on; false when there is none.
  bool advance_time();
  // Until woken, or the deadline: false then.
  bool block(Task& task, const void* on, Deadline deadline);
  void wake(const void* on, int most);
  void apply_faults(Task& task);
  void kill(int worker, Task& from);
  void freeze_if_dying(Task& task);
  void settle(int worker);
  bool everybody_ended() const;
  void finish();
  [[noreturn]] void sleep_for_good(Task& task);
  std::string account() const;

  const SchedulerOptions options_;
  Rng rng_;
  const std::uint64_t stays_;  // of 16: how often a thread goes on at a point
  const std::uint64_t hurry_;  // one point in so many brings the next short deadline; 0: none does
  const int slow_;             // this worker's threads seldom come to their turn; -1: nobody's
  std::vector<Fault> faults_;  // still to come
  std::vector<OfWorker> workers_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::map<const void*, Owner> owners_;  // of mutexes
  Clock::Time now_ = kBeginning;
  std::vector<Death> deaths_;
  std::size_t told_ = 0;  // of the deaths
  bool anybody_died_ = false;
  bool sparing_ = false;
  std::uint64_t all_points_ = 0;
  std::uint64_t digest_ = 0;
  std::string failure_;
  std::atomic<std::uint32_t> done_{0};
};

}  // namespace kith::replay

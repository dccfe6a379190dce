// The calls by which threads wait for each other, and for time, as the whole program sees them: this file's
// definitions come before the C library's, also for the standard library. Threads that a Scheduler manages
// are handed to it; for the others nothing changes.
#include <cerrno>
#include <climits>
#include <cstdarg>

#include <dlfcn.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/replay/real.h"
#include "tests/replay/scheduler.h"

namespace kith::replay {
namespace {

// Condition variables have two versions in the C library; the default one is meant.
template <class Function>
Function real_function(const char* name, const char* version = nullptr) {
  void* found = version != nullptr ? dlvsym(RTLD_NEXT, name, version) : nullptr;
  if (found == nullptr) found = dlsym(RTLD_NEXT, name);
  return reinterpret_cast<Function>(found);
}

long system_call(long number, long a, long b, long c, long d, long e, long f) {
  static const auto call = real_function<long (*)(long, ...)>("syscall");
  return call(number, a, b, c, d, e, f);
}

// What the calendar says while virtual time is this much less.
constexpr Clock::Duration kCalendar = std::chrono::hours(24 * 365 * 50);

Deadline deadline_of(const timespec& time, clockid_t clock) {
  const Clock::Duration since = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  return Deadline(clock == CLOCK_REALTIME ? since - kCalendar : since);
}
Deadline in(const Scheduler& scheduler, const timespec& time) {
  return scheduler.now() + std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool recursive(const pthread_mutex_t* mutex) {
  return (mutex->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE;
}

// As the kernel answers.
long futex(Scheduler& scheduler, const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* time) {
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET: {
      if (word.load() != value) {
        errno = EAGAIN;
        return -1;
      }
      Deadline deadline = Deadline::max();
      if (time != nullptr) {
        deadline =
            (operation & FUTEX_CMD_MASK) == FUTEX_WAIT
                ? in(scheduler, *time)
                : deadline_of(*time, operation & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC);
      }
      if (scheduler.futex_wait(&word, deadline)) return 0;
      errno = ETIMEDOUT;
      return -1;
    }
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
      return scheduler.futex_wake(&word, static_cast<int>(value));
    default:
      errno = ENOSYS;
      return -1;
  }
}

}  // namespace

namespace real {

int create_thread(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  static const auto create = real_function<decltype(&pthread_create)>("pthread_create");
  return create(thread, attributes, body, argument);
}
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  system_call(SYS_futex, reinterpret_cast<long>(&word), FUTEX_WAIT_PRIVATE, value, 0, 0, 0);
}
void wake(const std::atomic<std::uint32_t>& word) {
  system_call(SYS_futex, reinterpret_cast<long>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
}

}  // namespace real
}  // namespace kith::replay

using kith::Deadline;
using kith::replay::real_function;
using kith::replay::Scheduler;

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) noexcept {
  if (Scheduler* const scheduler = Scheduler::current())
    return scheduler->start(thread, attributes, body, argument);
  return kith::replay::real::create_thread(thread, attributes, body, argument);
}

int pthread_join(pthread_t thread, void** result) {
  if (Scheduler* const scheduler = Scheduler::current()) scheduler->join(thread);
  static const auto join = real_function<decltype(&pthread_join)>("pthread_join");
  return join(thread, result);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (Scheduler* const scheduler = Scheduler::current()) {
    scheduler->lock(mutex, kith::replay::recursive(mutex));
    return 0;
  }
  static const auto lock = real_function<decltype(&pthread_mutex_lock)>("pthread_mutex_lock");
  return lock(mutex);
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  if (Scheduler* const scheduler = Scheduler::current())
    return scheduler->try_lock(mutex, kith::replay::recursive(mutex)) ? 0 : EBUSY;
  static const auto lock = real_function<decltype(&pthread_mutex_trylock)>("pthread_mutex_trylock");
  return lock(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (Scheduler* const scheduler = Scheduler::current()) {
    scheduler->unlock(mutex);
    return 0;
  }
  static const auto unlock = real_function<decltype(&pthread_mutex_unlock)>("pthread_mutex_unlock");
  return unlock(mutex);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (Scheduler* const scheduler = Scheduler::current()) {
    scheduler->wait(condition, mutex, Deadline::max());
    return 0;
  }
  static const auto wait = real_function<decltype(&pthread_cond_wait)>("pthread_cond_wait", "GLIBC_2.3.2");
  return wait(condition, mutex);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* time) {
  if (Scheduler* const scheduler = Scheduler::current()) {
    const Deadline deadline = kith::replay::deadline_of(*time, CLOCK_REALTIME);
    return scheduler->wait(condition, mutex, deadline) ? 0 : ETIMEDOUT;
  }
  static const auto wait =
      real_function<decltype(&pthread_cond_timedwait)>("pthread_cond_timedwait", "GLIBC_2.3.2");
  return wait(condition, mutex, time);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* time) {
  if (Scheduler* const scheduler = Scheduler::current()) {
    const Deadline deadline = kith::replay::deadline_of(*time, clock);
    return scheduler->wait(condition, mutex, deadline) ? 0 : ETIMEDOUT;
  }
  static const auto wait = real_function<decltype(&pthread_cond_clockwait)>("pthread_cond_clockwait");
  return wait(condition, mutex, clock, time);
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (Scheduler* const scheduler = Scheduler::current()) {
    scheduler->notify(condition, false);
    return 0;
  }
  static const auto signal =
      real_function<decltype(&pthread_cond_signal)>("pthread_cond_signal", "GLIBC_2.3.2");
  return signal(condition);
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (Scheduler* const scheduler = Scheduler::current()) {
    scheduler->notify(condition, true);
    return 0;
  }
  static const auto broadcast =
      real_function<decltype(&pthread_cond_broadcast)>("pthread_cond_broadcast", "GLIBC_2.3.2");
  return broadcast(condition);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const Scheduler* const scheduler = Scheduler::current();
  if (scheduler == nullptr || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME)) {
    static const auto get = real_function<decltype(&clock_gettime)>("clock_gettime");
    return get(clock, time);
  }
  auto since = scheduler->now().time_since_epoch();
  if (clock == CLOCK_REALTIME) since += kith::replay::kCalendar;
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(since);
  *time = {whole.count(), (since - whole).count()};
  return 0;
}

int nanosleep(const timespec* time, timespec* left) {
  if (Scheduler* const scheduler = Scheduler::current()) {
    scheduler->sleep_until(kith::replay::in(*scheduler, *time));
    return 0;
  }
  static const auto sleep = real_function<decltype(&nanosleep)>("nanosleep");
  return sleep(time, left);
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  if (Scheduler* const scheduler = Scheduler::current()) {
    scheduler->sleep_until((flags & TIMER_ABSTIME) != 0 ? kith::replay::deadline_of(*time, clock)
                                                        : kith::replay::in(*scheduler, *time));
    return 0;
  }
  static const auto sleep = real_function<decltype(&clock_nanosleep)>("clock_nanosleep");
  return sleep(clock, flags, time, left);
}

int sched_yield() noexcept {
  if (Scheduler* const scheduler = Scheduler::current()) {
    scheduler->point(kith::replay::Point::sleep);
    return 0;
  }
  static const auto yield = real_function<decltype(&sched_yield)>("sched_yield");
  return yield();
}

long syscall(long number, ...) noexcept {
  va_list rest;
  va_start(rest, number);
  long arguments[6];
  for (long& argument : arguments)
    argument = va_arg(rest, long);
  va_end(rest);
  Scheduler* const scheduler = number == SYS_futex ? Scheduler::current() : nullptr;
  if (scheduler != nullptr) {
    return kith::replay::futex(*scheduler, *reinterpret_cast<const std::atomic<std::uint32_t>*>(arguments[0]),
                               static_cast<int>(arguments[1]), static_cast<std::uint32_t>(arguments[2]),
                               reinterpret_cast<const timespec*>(arguments[3]));
  }
  return kith::replay::system_call(number, arguments[0], arguments[1], arguments[2], arguments[3],
                                   arguments[4], arguments[5]);
}

}  // extern "C"

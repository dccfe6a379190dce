#include "kith/comm/shm/life.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/mapped/futex.h"

namespace kith::comm::shm {
namespace {

// The system call as Linux 5.16 brought it; older headers lack it, and the kernel that runs this may be
// newer.
constexpr long kFutexWaitv = 449;
struct WaitWord {
  std::uint64_t value = 0;
  std::uint64_t address = 0;
  std::uint32_t flags = 2;  // a word of 32 bits, shared between processes
  std::uint32_t reserved = 0;
};
using Words = std::vector<WaitWord>;

// The kernel's limits: words per futex_waitv, entries of a robust list that it follows.
constexpr std::size_t kMostWords = 128;
constexpr int kMostPeers = 2000;
// Every wake-up is also looked for by hand, should one ever be missed.
constexpr Clock::Duration kRecheck = std::chrono::seconds(1);
// How long to sleep on one part of the words when they do not fit one call. Each turn costs as much as it has
// words, on every worker: 256 that took turns every 5 ms were busy with nothing else.
constexpr Clock::Duration kTurn = std::chrono::milliseconds(50);
// Peers come and go in crowds: those of one moment are taken together. To go over many takes long, so the
// moment grows with them.
constexpr std::size_t kCrowd = 24;
constexpr std::size_t kLargestCrowd = 256;
constexpr auto kMomentOfEach = std::chrono::microseconds(400);

WaitWord entry(const std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  return {.value = expected, .address = reinterpret_cast<std::uintptr_t>(&word)};
}

long wait_on(const Words& words, Clock::Duration most) {
  const auto until = (SteadyClock().now() + most).time_since_epoch();
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(until);
  timespec at{};
  at.tv_sec = whole.count();
  at.tv_nsec = (until - whole).count();
  return syscall(kFutexWaitv, words.data(), words.size(), 0, &at, CLOCK_MONOTONIC);
}

bool ended(std::uint32_t word) {
  return (word & FUTEX_OWNER_DIED) != 0;
}

}  // namespace

std::string Life::obstacle() {
  const Descriptor probe(::memfd_create("kith probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!probe || ::fcntl(probe.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0 || errno != EINVAL) return {};
  return "this kernel lacks F_SEAL_FUTURE_WRITE (Linux has it since 5.1)";
}

// Asked for by trying: where a container forbids the call, the kernel's version does not tell.
Life::Watching Life::watching(bool plain) {
  const std::atomic<std::uint32_t> word{0};
  errno = 0;
  wait_on({entry(word, 1)}, Clock::Duration(0));
  return errno == EAGAIN && !plain ? Watching::one_call : Watching::thread_per_peer;
}

std::size_t Life::segment_bytes(int workers) {
  return sizeof(Cell) * (static_cast<std::size_t>(workers) + 1);
}
Life::Head& Life::head_of(const Segment& segment) {
  return *reinterpret_cast<Head*>(segment.data());
}
Life::Cell* Life::cells_of(const Segment& segment) {
  return reinterpret_cast<Cell*>(segment.data()) + 1;
}

Life::Life(int workers, OnLost on_lost, Watching how)
    : workers_(workers),
      on_lost_(std::move(on_lost)),
      watching_(how),
      own_(Segment::create("kith life", segment_bytes(workers), Sharing::read_only)) {
  if (workers > kMostPeers) {
    throw InputError(cat(workers, " workers"), "backend shm", cat("at most ", kMostPeers, " on one machine"));
  }
  if (const std::string missing = obstacle(); !missing.empty()) throw Error(missing, "backend shm");
  new (&head_of(own_)) Head;
  for (int i = 0; i < workers; ++i)
    new (&cells_of(own_)[i]) Cell;
  std::promise<int> enlisted;
  auto status = enlisted.get_future();
  thread_ = std::thread(&Life::run, this, std::move(enlisted));
  if (const int code = status.get(); code != 0) {
    thread_.join();
    errno = code;
    fail("cannot register robust futexes", "backend shm");
  }
}

Life::~Life() {
  head_of(own_).closing.store(1);
  stop_.store(true);
  nudge();
  thread_.join();
}

void Life::nudge() {
  nudge_.fetch_add(1);
  mapped::futex_wake_all(nudge_);
}

void Life::watch(int peer, const Descriptor& life, int self, const std::string& place) {
  Segment segment = Segment::map(life, segment_bytes(workers_), Sharing::read_only, place);
  const Head* head = &head_of(segment);
  const std::atomic<std::uint32_t>* word = &cells_of(segment)[self].word;
  std::unique_ptr<WordThread> sleeper;
  if (watching_ == Watching::thread_per_peer)
    sleeper = std::make_unique<WordThread>(*word, ended, [this] { nudge(); });
  {
    std::lock_guard lock(mutex_);
    watched_.emplace(peer, Watched{std::move(segment), head, word, std::move(sleeper)});
  }
  nudge();
}

bool Life::watches(int peer) const {
  const std::lock_guard lock(mutex_);
  return watched_.contains(peer);
}

void Life::enlist() {
  Cell* cells = cells_of(own_);
  // The waiters bit is set for good: whoever watches never writes the word, so the kernel must always wake.
  const auto owner = static_cast<std::uint32_t>(syscall(SYS_gettid)) | FUTEX_WAITERS;
  robust_list* next = &list_.list;
  for (int i = workers_ - 1; i >= 0; --i) {
    cells[i].word.store(owner);
    cells[i].link.next = next;
    next = &cells[i].link;
  }
  list_.list.next = next;
  list_.futex_offset = static_cast<long>(offsetof(Cell, word)) - static_cast<long>(offsetof(Cell, link));
  list_.list_op_pending = nullptr;
}

void Life::run(std::promise<int> enlisted) {
  keep_to_the_background();
  enlist();
  const bool listed = syscall(SYS_set_robust_list, &list_, sizeof list_) == 0;
  enlisted.set_value(listed ? 0 : errno);
  while (listed && !stop_.load()) {
    const std::uint32_t nudge = nudge_.load();
    std::vector<const std::atomic<std::uint32_t>*> alive;
    std::vector<std::pair<int, bool>> gone;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [peer, watched] : watched_) {
        if (ended(watched.word->load())) {
          gone.emplace_back(peer, watched.head->closing.load() == 0);
        } else {
          alive.push_back(watched.word);
        }
      }
      for (const auto& [peer, died] : gone)
        watched_.erase(peer);
    }
    for (const auto& [peer, died] : gone)
      on_lost_(peer, died);
    if (gone.empty() && !stop_.load()) sleep_on(alive, nudge);
    const bool more = !gone.empty() || nudge_.load() != nudge;
    if (more && alive.size() > kCrowd && !stop_.load())
      std::this_thread::sleep_for(std::min(alive.size(), kLargestCrowd) * kMomentOfEach);
  }
}

void Life::sleep_on(const std::vector<const std::atomic<std::uint32_t>*>& alive, std::uint32_t nudge) {
  if (watching_ == Watching::thread_per_peer)
    return mapped::futex_wait(nudge_, nudge, SteadyClock().now() + kRecheck);
  const Clock::Duration most = alive.size() < kMostWords ? kRecheck : kTurn;
  auto next = alive.begin();
  do {
    Words words{entry(nudge_, nudge)};
    for (; next != alive.end() && words.size() < kMostWords; ++next) {
      const std::uint32_t seen = (*next)->load();
      if (ended(seen)) return;
      words.push_back(entry(**next, seen));
    }
    wait_on(words, most);
  } while (next != alive.end() && nudge_.load() == nudge);
}

}  // namespace kith::comm::shm

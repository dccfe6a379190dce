// The driver's part in opening windows, by the threads that open them: meeting the peers, announcing, and
// waiting for them.

#include <algorithm>
#include <exception>
#include <future>
#include <memory>
#include <stop_token>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/mapped/wait_note.h"
#include "kith/comm/mapped/window.h"
#include "kith/comm/ucx/driver.h"
#include "kith/comm/ucx/lifeline_message.h"

namespace kith::comm::ucx {
namespace {

constexpr std::size_t kMostMeetings = 16;  // under way at a time
// When a peer that has not come is looked for, first; and how long that may take.
constexpr Clock::Duration kLookAfter = std::chrono::milliseconds(300);
constexpr Clock::Duration kLookTime = std::chrono::seconds(1);
constexpr std::string_view kRemedy = "run the same build of kith with the same workers everywhere";

// A cancellation (or none) as poll sees it.
class CancellationFile final : private Cancellation::Listener {
 public:
  explicit CancellationFile(std::shared_ptr<Cancellation> cancellation)
      : cancellation_(std::move(cancellation)), file_(source_.get_token()) {
    if (!cancellation_) return;
    cancellation_->add(this);
    if (cancellation_->cancelled()) source_.request_stop();
  }
  ~CancellationFile() {
    if (cancellation_) cancellation_->remove(this);
  }
  CancellationFile(const CancellationFile&) = delete;
  CancellationFile& operator=(const CancellationFile&) = delete;

  int fd() const { return file_.fd(); }

 private:
  void on_cancel() override { source_.request_stop(); }

  const std::shared_ptr<Cancellation> cancellation_;
  std::stop_source source_;
  const net::StopFile file_;
};

}  // namespace

std::shared_ptr<Driver::WindowLink> Driver::announce(const WindowOptions& options, const mapped::Block& own,
                                                     const std::vector<int>& peers, Deadline deadline) {
  std::lock_guard lock(open_mutex_);
  const auto window = std::make_shared<NetWindow>(options.name, next_number_++, own);
  for (int peer : peers) {
    window->sides.try_emplace(peer, own.control.head(), context_->self_index(),
                              Staging{exchange_.pool(), options.pin});
  }
  auto link = std::make_shared<WindowLink>(shared_from_this(), window);
  // Before anybody is met: who can be reached hears of it, whatever becomes of the others.
  post([this, window] {
    exchange_.add(window);
    for (const auto& [peer, side] : window->sides) {
      say(peer, encode(WindowOpened{window->own.control.head(), window->number, window->name}));
    }
  });
  try {
    const CancellationFile cancelled(options.cancellation);
    meet_all(peers, {deadline, cancelled.fd()});
  } catch (const Error&) {
    mapped::check_going_on(options, cat(context_->self(), " opens window '", options.name, "'"));
    throw;
  }
  return link;
}

void Driver::meet_all(const std::vector<int>& peers, const net::Limit& limit) {
  // Of two workers the one with the greater index connects.
  std::vector<int> due;
  for (int peer : peers) {
    const bool met = connected_[static_cast<std::size_t>(peer)];
    if (peer < context_->self_index() && !met && !context_->liveness().lost(peer)) due.push_back(peer);
  }
  for (std::size_t first = 0; first < due.size(); first += kMostMeetings) {
    const std::size_t end = std::min(due.size(), first + kMostMeetings);
    std::vector<std::future<void>> meetings;
    for (std::size_t i = first; i < end; ++i)
      meetings.push_back(
          std::async(std::launch::async, [this, peer = due[i], &limit] { meet(peer, limit); }));
    for (const std::future<void>& meeting : meetings)
      meeting.wait();
    std::exception_ptr failure;
    for (std::size_t i = first; i < end; ++i) {
      try {
        meetings[i - first].get();
        connected_[static_cast<std::size_t>(due[i])] = true;
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }
}

void Driver::meet(int peer, const net::Limit& limit) {
  try {
    const auto connection =
        std::make_shared<net::Connection>(net::connect_proven({.to = options_.address_of(peer),
                                                               .interface = options_.interface,
                                                               .retry = net::Retry::unless_refused,
                                                               .log = &context_->log()},
                                                              options_.secret, limit));
    post([this, peer, connection] { adopt(peer, std::move(*connection)); });
  } catch (const net::Refused& refusal) {
    heed_end(peer);
    throw Error(cat(context_->worker(peer), " is lost: ", refusal.what()), cat(context_->self(), " meets it"),
                "open it among those who are left");
  }
}

void Driver::look_after(int peer) {
  try {
    net::connect({.to = options_.address_of(peer),
                  .interface = options_.interface,
                  .retry = net::Retry::never,
                  .log = nullptr},
                 SteadyClock().now() + kLookTime);
  } catch (const net::Refused&) {
    heed_end(peer);
  } catch (const Error&) {
    // Not known: whoever waits goes on waiting.
  }
}

std::vector<mapped::PeerBlock> Driver::gather(const WindowOptions& options, const WindowLink& link,
                                              Deadline deadline) {
  const std::shared_ptr<NetWindow>& window = link.window();
  const std::string place = cat(context_->self(), " opens window '", window->name, "'");
  mapped::WaitNote note(*context_, window->name);
  Clock::Duration look_at = kLookAfter;
  std::optional<Deadline> mourn_until;
  std::map<int, Opened> theirs;
  std::unique_lock lock(mutex_);
  for (;;) {
    std::vector<int> pending;
    std::optional<int> lost;
    for (const auto& [peer, side] : window->sides) {
      // Asked first: what a peer announced before it was lost still counts.
      const bool gone = context_->liveness().lost(peer);
      auto& from_peer = opened_[static_cast<std::size_t>(peer)];
      if (!theirs.contains(peer)) {
        const auto found = from_peer.find(window->name);
        if (found != from_peer.end()) {
          theirs.emplace(peer, from_peer.extract(found).mapped());
        } else {
          const std::string& refusal = refusals_[static_cast<std::size_t>(peer)];
          if (!refusal.empty()) throw InputError(refusal, place, kRemedy);
          if (gone)
            throw Error(cat(context_->worker(peer), " is lost"), place, "open it among those who are left");
          pending.push_back(peer);
        }
      }
      if (gone && !lost) lost = peer;
    }
    if (pending.empty()) break;
    if (lost && !mourn_until) mourn_until = SteadyClock().now() + mapped::kMourning;
    if (lost && SteadyClock().now() >= *mourn_until)
      throw Error(cat(context_->worker(*lost), " is lost"), place, "open it among those who are left");
    if (SteadyClock().now() >= deadline) {
      throw Error(cat(context_->worker(pending.front()), " has not opened it before the deadline"), place,
                  "every worker must open the same windows in the same order");
    }
    mapped::check_going_on(options, place);
    note.explain("waits for", pending.front());
    if (note.waited() >= look_at) {
      look_at *= 2;
      lock.unlock();
      for (int peer : pending)
        look_after(peer);
      lock.lock();
      continue;
    }
    changed_.wait_until(lock, note.look_by(deadline));
  }
  lock.unlock();
  std::vector<mapped::PeerBlock> blocks;
  for (const auto& [peer, side] : window->sides) {
    const Opened& opened = theirs.at(peer);
    protocol::check_same(window->name, context_->self(), window->own.control.head(), context_->worker(peer),
                         opened.head);
    post([this, window, index = peer, number = opened.number] { exchange_.bind(window, index, number); });
    blocks.push_back({peer, side.mirror.block()});
  }
  // When messages pass in both directions, this worker's own announcement has arrived too, so that nothing it
  // does next takes it back.
  const auto open = std::make_shared<std::promise<void>>();
  post([this, window, open] { opening_.push_back({window, open}); });
  const std::future<void> opened = open->get_future();
  while (opened.wait_until(note.look_by(deadline)) == std::future_status::timeout &&
         SteadyClock().now() < deadline)
    mapped::check_going_on(options, place);
  return blocks;
}

void Driver::look_for_absent(const WindowLink& link) {
  std::vector<int> absent;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [peer, side] : link.window()->sides) {
      const bool came = opened_[static_cast<std::size_t>(peer)].contains(link.window()->name);
      if (!came && !context_->liveness().lost(peer)) absent.push_back(peer);
    }
  }
  for (int peer : absent)
    look_after(peer);
}

void Driver::heed_end(int peer) {
  post([this, peer] {
    if (contact(peer).state == State::absent) lose(peer, "ended before it was met");
  });
}

}  // namespace kith::comm::ucx

#include "kith/train/stop_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);  // for lost workers, while waiting
constexpr std::array<std::string_view, 3> kWords{"save", "interrupt", "terminate"};

struct Agreement {
  std::int64_t step = 0;
  Request request = Request::save;
};

std::int64_t parse_step(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string_view word_of(Request request) {
  return kWords.at(static_cast<std::size_t>(request));
}

Request parse_request(std::string_view word) {
  const auto found = std::ranges::find(kWords, word);
  if (found == kWords.end()) throw Error(cat("'", word, "' is not a request"), "requests");
  return static_cast<Request>(found - kWords.begin());
}

}  // namespace

class StopRequests::Impl {
 public:
  Impl(const engine::WorldParts& world, StopRequestOptions options)
      : world_(world),
        options_(std::move(options)),
        members_(world.members),
        caught_up_(!options_.joined),
        listener_([this](std::stop_token stop) { guarded([&] { listen(stop); }); }),
        speaker_([this](std::stop_token stop) { guarded([&] { speak(stop); }); }) {}

  void ask(Request request) {
    const std::lock_guard lock(mutex_);
    if (wanted_ && *wanted_ >= request) return;
    wanted_ = request;
    changed_.notify_all();
  }

  void follow(const Members& members) {
    const std::lock_guard lock(mutex_);
    members_ = members;
  }

  std::optional<Request> due(std::int64_t steps) {
    if (options_.joined) catch_up(steps);
    std::unique_lock lock(mutex_);
    if (!steps_) changed_.notify_all();
    steps_ = steps;
    if (wanted_ && !failure_.empty()) throw Error(failure_, place());
    if (promised_ == steps) await_agreement(lock);
    if (agreed_.empty() || agreed_.front().step > steps) return {};
    KITH_CHECK_EQ(agreed_.front().step, steps, "due is called between any two steps");
    const Request request = agreed_.front().request;
    agreed_.pop_front();
    if (wanted_ && *wanted_ <= request) wanted_.reset();
    changed_.notify_all();
    return request;
  }

 private:
  std::string place() const { return cat(world_.self(), ", ", options_.name); }
  std::string key(std::int64_t number, std::string_view part) const {
    return cat(options_.name, "/", number, "/", part);
  }

  Members members() const {
    const std::lock_guard lock(mutex_);
    return members_;
  }
  bool gone(WorkerId worker) const { return worker != world_.self() && world_.transport->lost(worker); }

  // A newcomer's first look: takes part in every request that there is by now.
  void catch_up(std::int64_t steps) {
    {
      const std::lock_guard lock(mutex_);
      if (caught_up_) return;
    }
    const Deadline deadline = world_.clock->now() + options_.patience;
    comm::Store& store = *world_.store;
    while (const auto wanted = store.get(key(heard_, "wanted"))) {
      store.set(promise_key(heard_, world_.self()), cat(std::max(steps, last_agreed_ + 1)));
      const auto agreed = store.wait(key(heard_, "agreed"), deadline);
      if (!agreed)
        throw Error(cat("request ", heard_, " has not been agreed on"), place(), "look at the workers' logs");
      const std::lock_guard lock(mutex_);
      last_agreed_ = parse_step(*agreed);
      if (last_agreed_ >= steps) agreed_.push_back({last_agreed_, parse_request(*wanted)});
      ++heard_;
    }
    const std::lock_guard lock(mutex_);
    caught_up_ = true;
    changed_.notify_all();
  }

  // Until the step of the request that this worker has made its promise for is known.
  void await_agreement(std::unique_lock<std::mutex>& lock) {
    const Deadline deadline = world_.clock->now() + options_.patience;
    while (promised_) {
      if (!failure_.empty()) throw Error(failure_, place());
      if (world_.clock->now() >= deadline) {
        throw Error("some worker did not say at which step it is", place(), "look at the workers' logs");
      }
      changed_.wait_for(lock, kLook);
    }
  }

  // A store that is gone ends the training only when something is asked.
  template <class Body>
  void guarded(Body&& body) {
    try {
      body();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      failure_ = error.what();
      changed_.notify_all();
    }
  }

  // Every request in turn: hears of it, promises, hears of the agreement.
  void listen(const std::stop_token& stop) {
    std::int64_t number = 0;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return caught_up_; })) return;
      number = heard_;
    }
    for (;; ++number) {
      const auto wanted = world_.store->wait(key(number, "wanted"), Deadline::max(), stop);
      if (!wanted) return;
      const auto promise = make_promise(stop);
      if (!promise) return;
      const auto agreed = agree(number, *promise, stop);
      if (!agreed) return;
      const std::lock_guard lock(mutex_);
      agreed_.push_back({*agreed, parse_request(*wanted)});
      last_agreed_ = *agreed;
      ++heard_;
      promised_.reset();
      changed_.notify_all();
    }
  }

  // The next step that the worker comes to and has no other business at. Nothing when stopped before the
  // worker's first step.
  std::optional<std::int64_t> make_promise(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return steps_.has_value(); })) return {};
    promised_ = std::max(*steps_, last_agreed_) + 1;
    return promised_;
  }

  // The largest promise of those who are there. The first of them gathers them, so that n workers ask the
  // store about n times.
  std::optional<std::int64_t> agree(std::int64_t number, std::int64_t promise, const std::stop_token& stop) {
    comm::Store& store = *world_.store;
    store.set(promise_key(number, world_.self()), cat(promise), stop);
    while (!stop.stop_requested()) {
      if (const auto agreed = store.wait(key(number, "agreed"), world_.clock->now() + kLook, stop))
        return parse_step(*agreed);
      const Members members = this->members();
      const auto first = std::ranges::find_if(members.workers, [&](WorkerId w) { return !gone(w); });
      if (first == members.workers.end() || *first != world_.self()) continue;
      if (const auto largest = gather(number, stop))
        store.set_once(key(number, "agreed"), cat(*largest), stop);
    }
    return {};
  }

  std::string promise_key(std::int64_t number, WorkerId worker) const {
    return key(number, cat("at/", worker.value));
  }

  std::optional<std::int64_t> gather(std::int64_t number, const std::stop_token& stop) {
    std::int64_t largest = 0;
    for (const WorkerId worker : members().workers) {
      std::optional<std::string> told;
      while (!told) {
        const bool left = gone(worker);  // before the look
        told = world_.store->wait(promise_key(number, worker), world_.clock->now() + kLook, stop);
        if (stop.stop_requested()) return {};
        if (!told && left) break;
      }
      if (told) largest = std::max(largest, parse_step(*told));
    }
    return largest;
  }

  // Hands on what was asked here, as the request that comes next, until one has done it.
  void speak(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    std::int64_t spoken = -1;
    const auto to_say = [&] {
      return wanted_ && heard_ > spoken &&
             std::ranges::none_of(agreed_, [&](const Agreement& a) { return a.request >= *wanted_; });
    };
    while (changed_.wait(lock, stop, to_say)) {
      spoken = heard_;
      const Request request = *wanted_;
      lock.unlock();
      world_.store->set_once(key(spoken, "wanted"), word_of(request), stop);
      lock.lock();
    }
  }

  const engine::WorldParts world_;
  const StopRequestOptions options_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  Members members_;
  bool caught_up_;                        // with what was asked before this worker joined
  std::optional<std::int64_t> steps_;     // done, when the worker was between steps last
  std::optional<std::int64_t> promised_;  // not to be passed before the agreement that is under way
  std::deque<Agreement> agreed_;          // and not come to yet, in order
  std::int64_t last_agreed_ = -1;
  std::int64_t heard_ = 0;         // requests that were agreed on
  std::optional<Request> wanted_;  // asked here and not yet done
  std::string failure_;            // of the store
  std::jthread listener_;          // last: they use everything above
  std::jthread speaker_;
};

StopRequests::StopRequests(const engine::WorldParts& world, StopRequestOptions options)
    : impl_(std::make_unique<Impl>(world, std::move(options))) {}
StopRequests::~StopRequests() = default;

void StopRequests::ask(Request request) {
  impl_->ask(request);
}
std::optional<Request> StopRequests::due(std::int64_t steps) {
  return impl_->due(steps);
}
void StopRequests::follow(const Members& members) {
  impl_->follow(members);
}

}  // namespace kith::train

#include "tests/replay/planted.h"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "kith/base/text.h"
#include "kith/launch/views.h"
#include "tests/replay/scheduler.h"

namespace kith::replay {
namespace {

constexpr int kUnlucky = 1;  // the worker whom it befalls, where it befalls one

bool now_and_then(std::uint64_t one_in) {
  return Scheduler::current()->below(one_in) == 0;
}

// Forwards everything but what the bug changes.
class PlantedWindow final : public comm::Window, private comm::Arrival::Releaser {
 public:
  PlantedWindow(Bug bug, std::unique_ptr<comm::Window> inner) : bug_(bug), inner_(std::move(inner)) {}

  const comm::WindowOptions& options() const override { return inner_->options(); }
  std::span<std::byte> slot(Version v) override { return inner_->slot(v); }
  std::variant<std::span<std::byte>, comm::Late> begin(Version v, Deadline deadline) override {
    return inner_->begin(v, deadline);
  }
  void skip(WorkerId peer, Version v) override { inner_->skip(peer, v); }
  comm::Outcome newest(WorkerId peer, std::optional<Version> after, Deadline deadline) override {
    return inner_->newest(peer, after, deadline);
  }

  void publish(Version v, const comm::PublishOptions& asked) override {
    comm::PublishOptions options = asked;
    if (bug_ == Bug::reader_is_not_named && !options.readers.empty() && now_and_then(20)) {
      options.readers.pop_back();
      if (!options.ranges.empty()) options.ranges.pop_back();
    }
    if (bug_ != Bug::visible_too_early || options.bytes == 0 || !now_and_then(10)) {
      inner_->publish(v, options);
      return;
    }
    std::byte& last = inner_->slot(v)[options.bytes - 1];
    const std::byte right = std::exchange(last, last ^ std::byte{1});
    inner_->publish(v, options);
    Scheduler::current()->point(Point::window);
    inner_->slot(v)[options.bytes - 1] = right;
  }

  comm::Outcome await(WorkerId peer, Version v, Deadline deadline) override {
    if (bug_ == Bug::gives_up_silently && now_and_then(40)) return comm::Late{peer, v, {}};
    comm::Outcome outcome = inner_->await(peer, v, deadline);
    auto* const arrival = std::get_if<comm::Arrival>(&outcome);
    if (arrival == nullptr) return outcome;
    comm::Header header = arrival->header();
    std::span<const std::byte> data = arrival->data();
    std::vector<std::byte>& before = before_[peer];
    if (bug_ == Bug::version_before && before.size() == data.size() && now_and_then(20)) {
      stale_ = before;
      data = stale_;
    }
    if (bug_ == Bug::version_before) before.assign(arrival->data().begin(), arrival->data().end());
    if (bug_ == Bug::weight_is_dropped && anybody_died() && options().name.ends_with("/pushed"))
      header.weight = 0;
    if (bug_ != Bug::release_comes_early) held_.insert_or_assign({peer, v}, std::move(*arrival));
    return comm::Arrival(this, peer, header, data);
  }

 private:
  void release(WorkerId peer, Version v) override {
    const auto held = held_.find({peer, v});
    if (held == held_.end()) return;
    if (bug_ == Bug::release_is_skipped && now_and_then(20)) return;
    held_.erase(held);
  }
  static bool anybody_died() { return !Scheduler::current()->deaths().empty(); }

  const Bug bug_;
  const std::unique_ptr<comm::Window> inner_;
  std::map<std::pair<WorkerId, Version>, comm::Arrival> held_;
  std::map<WorkerId, std::vector<std::byte>> before_;
  std::vector<std::byte> stale_;
};

bool is_of_windows(Bug bug) {
  return bug != Bug::none && bug <= Bug::weight_is_dropped;
}

}  // namespace

std::string_view name_of(Bug bug) {
  constexpr std::array<std::string_view, kBugs.size() + 1> names{"none",
                                                                 "a release is skipped",
                                                                 "a release comes early",
                                                                 "the version before",
                                                                 "gives up silently",
                                                                 "a reader is not named",
                                                                 "visible too early",
                                                                 "the weight is dropped",
                                                                 "a loss is not told",
                                                                 "a loss of the living",
                                                                 "a view a step early",
                                                                 "a call is not heard"};
  return names[static_cast<std::size_t>(bug)];
}

bool is_of_the_engine(Bug bug) {
  return bug == Bug::weight_is_dropped;
}

std::unique_ptr<comm::Window> with_bug(Bug bug, std::unique_ptr<comm::Window> inner) {
  if (!is_of_windows(bug)) return inner;
  return std::make_unique<PlantedWindow>(bug, std::move(inner));
}

std::string WorkersStore::read(std::string_view key, std::string value) const {
  if (bug_ != Bug::view_a_step_early || worker_ != kUnlucky || !key.ends_with("/view")) return value;
  launch::View view = launch::decode_view(value);
  if (view.first.steps > 0) --view.first.steps;
  return launch::encode(view);
}

void WorkersStore::set_for(std::string_view key, std::string_view value, std::stop_token stop) {
  Scheduler::current()->point(Point::store, cat("store: set ", key));
  shared_.set(key, value, std::move(stop));
}

std::optional<std::string> WorkersStore::get_for(std::string_view key, std::stop_token stop) {
  Scheduler::current()->point(Point::store, cat("store: get ", key));
  return shared_.get(key, std::move(stop));
}

std::int64_t WorkersStore::add_for(std::string_view key, std::int64_t delta, std::stop_token stop) {
  Scheduler::current()->point(Point::store, cat("store: add ", key));
  return shared_.add(key, delta, std::move(stop));
}

std::string WorkersStore::set_once_for(std::string_view key, std::string_view value, std::stop_token stop) {
  Scheduler::current()->point(Point::store, cat("store: set once ", key));
  return read(key, shared_.set_once(key, value, std::move(stop)));
}

std::optional<std::string> WorkersStore::wait_for(std::string_view key, Deadline deadline,
                                                  std::stop_token stop) {
  Scheduler::current()->point(Point::store, cat("store: wait ", key));
  if (bug_ == Bug::call_is_not_heard && worker_ == kUnlucky && key.ends_with("/called"))
    return shared_.wait("never", deadline, std::move(stop));
  auto value = shared_.wait(key, deadline, std::move(stop));
  if (value) value = read(key, std::move(*value));
  return value;
}

}  // namespace kith::replay

#include "kith/train/stop_request.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

// Rounds after which a schedule that has not connected everybody never will, for every topology kith has.
constexpr std::int64_t kMostRounds = 100'000;

std::int64_t parse(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

struct Agreement {
  std::int64_t step = 0;
  Request request = Request::save;
};

std::string to_text(const Agreement& a) {
  return cat(a.step, " ", a.request == Request::stop ? "stop" : "save");
}

Agreement from_text(const std::string& text) {
  return {parse(text), text.ends_with("stop") ? Request::stop : Request::save};
}

}  // namespace

std::optional<std::int64_t> farthest_step(const graph::Schedule& schedule, int mix_every, Rank rank,
                                          std::int64_t steps) {
  constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> limit(static_cast<std::size_t>(schedule.workers()), kUnknown);
  limit[static_cast<std::size_t>(rank)] = steps;
  int known = 1;
  for (std::int64_t r = (steps + 1) / mix_every; known < schedule.workers(); ++r) {
    const std::int64_t t = (r + 1) * mix_every - 1;  // the step that mixes by round r
    if (r > steps / mix_every + kMostRounds) return {};
    if (t <= steps) continue;
    for (Rank w = 0; w < schedule.workers(); ++w) {
      if (limit[static_cast<std::size_t>(w)] != kUnknown) continue;
      for (Rank u : graph::reads_of(schedule.round(w, r), w)) {
        // w finishes step t only after u has finished step t - 1, that is, has done t steps.
        if (limit[static_cast<std::size_t>(u)] >= t) continue;
        limit[static_cast<std::size_t>(w)] = t;
        ++known;
        break;
      }
    }
  }
  return *std::max_element(limit.begin(), limit.end());
}

class StopRequests::Impl {
 public:
  Impl(const engine::World& world, const engine::EngineOptions& options, std::string name)
      : world_(world), options_(options), name_(std::move(name)) {
    graph::ScheduleOptions schedule = options.schedule;
    if (options.algorithm == "allreduce") schedule.topology = "complete";
    if (schedule.shape.workers() != world.size()) schedule.shape = graph::Shape::single_node(world.size());
    schedule_ = graph::make_schedule(schedule);
    mix_every_ = options.algorithm == "allreduce" ? 1 : options.mix_every;
  }

  void ask(Request request, std::int64_t steps) {
    wanted_ = std::max(wanted_.value_or(request), request);
    if (!agreed_) propose(steps);
  }

  std::optional<Request> due(std::int64_t steps) {
    if (!agreed_) look(steps);
    if (!agreed_) return {};
    if (steps > agreed_->step) {
      throw Error(cat("step ", agreed_->step, " was agreed on, ", steps, " are done"),
                  cat(world_.self(), ", ", name_),
                  "a neighbour was late or lost on the way, so that this worker ran ahead");
    }
    if (agreed_->step != steps) return {};
    const Request request = agreed_->request;
    agreed_.reset();
    ++number_;
    if (wanted_ && *wanted_ <= request) wanted_.reset();
    if (wanted_) propose(steps);
    return request;
  }

  std::optional<std::int64_t> agreed_step() const {
    return agreed_ ? std::optional(agreed_->step) : std::nullopt;
  }

 private:
  bool free_running() const { return options_.algorithm == "none" && world_.size() > 1; }
  std::string key(std::string_view part) const { return cat(name_, "/", number_, "/", part); }

  void propose(std::int64_t steps) {
    if (free_running()) {
      world_.store->set_once(key("wanted"), to_text({0, *wanted_}));
      return;
    }
    const auto farthest = farthest_step(*schedule_, mix_every_, world_.rank(), steps);
    if (!farthest) {
      throw InputError(cat("topology '", schedule_->name(), "' leaves workers apart"), "topology",
                       "a common step exists only where everybody hears of everybody");
    }
    agreed_ = from_text(world_.store->set_once(key("agreed"), to_text({*farthest + 1, *wanted_})));
  }

  void look(std::int64_t steps) {
    if (free_running()) return meet(steps);
    if (const auto text = world_.store->get(key("agreed"))) agreed_ = from_text(*text);
  }

  // Nobody waits for anybody in the steps, so they may wait for each other here: all say where they are and
  // go on to the farthest.
  void meet(std::int64_t steps) {
    const auto wanted = world_.store->get(key("wanted"));
    if (!wanted) return;
    world_.store->set(key(cat("at", world_.rank())), cat(steps));
    const Deadline deadline = world_.clock->now() + options_.patience;
    std::int64_t farthest = steps;
    for (Rank rank = 0; rank < world_.size(); ++rank) {
      const auto at = world_.store->wait(key(cat("at", rank)), deadline);
      if (!at) {
        throw Error(cat(world_.members.at(rank), " did not say at which step it is"),
                    cat(world_.self(), ", ", name_), "look at that worker's log");
      }
      farthest = std::max(farthest, parse(*at));
    }
    agreed_ = Agreement{farthest, from_text(*wanted).request};
  }

  const engine::World world_;
  const engine::EngineOptions options_;
  const std::string name_;
  std::unique_ptr<graph::Schedule> schedule_;
  int mix_every_ = 1;
  std::int64_t number_ = 0;        // of the request that comes next
  std::optional<Request> wanted_;  // asked here and not yet done
  std::optional<Agreement> agreed_;
};

StopRequests::StopRequests(const engine::World& world, const engine::EngineOptions& options, std::string name)
    : impl_(std::make_unique<Impl>(world, options, std::move(name))) {}
StopRequests::~StopRequests() = default;

void StopRequests::ask(Request request, std::int64_t steps) {
  impl_->ask(request, steps);
}
std::optional<Request> StopRequests::due(std::int64_t steps) {
  return impl_->due(steps);
}
std::optional<std::int64_t> StopRequests::agreed_step() const {
  return impl_->agreed_step();
}

}  // namespace kith::train

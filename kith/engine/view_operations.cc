// Operations with everybody, in the views that they are done in: average, consensus distance, mean, gather.
#include <algorithm>
#include <optional>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/engine/view_follower.h"

namespace kith::engine {

std::vector<double> ViewFollower::operate(const Operation& operation, Again again) {
  const auto done = [&](std::vector<double> values) {
    const std::lock_guard lock(mutex_);
    ++place_.operations;
    last_values_ = again ? std::vector<double>{} : values;
    last_again_ = std::move(again);
    owed_.reset();
    phase_ = Phase::between;
    operating_ = false;
    changed_.notify_all();
    return values;
  };
  copy_if_wanted();
  {
    const std::lock_guard lock(mutex_);
    operating_ = true;
  }
  while (true) {
    const launch::View* const later = follow(Before::operation);
    const launch::View* const passed = later ? later : owed_ ? &*owed_ : nullptr;
    if (passed && !again) return done(std::vector<double>(passed->values));
    if (later) {
      done({});
      throw Overtaken("the members changed, and the others have stepped on since", cat(world_.self()),
                      "do without it, and go on");
    }
    if (views_ && !enter(Phase::apart)) continue;
    std::string problem;
    try {
      return done(operation(*engine_));
    } catch (const InputError&) {
      throw;
    } catch (const Error& error) {
      if (!views_ || engine_->failed()) throw;
      problem = error.what();
    }
    views_->call(problem);
    enter(Phase::between);
    await_view();
  }
}

double ViewFollower::average(std::span<void* const> to) {
  return operate([&](Engine::Impl& engine) { return std::vector{engine.average(to)}; },
                 [](Engine::Impl& engine) { engine.average({}); })
      .front();
}

double ViewFollower::consensus_distance() {
  return operate([](Engine::Impl& engine) { return std::vector{engine.consensus_distance()}; },
                 [](Engine::Impl& engine) { engine.consensus_distance(); })
      .front();
}

void ViewFollower::mean(std::span<double> numbers) {
  const std::vector<double> own(numbers.begin(), numbers.end());
  operate(
      [&](Engine::Impl& engine) {
        std::ranges::copy(own, numbers.begin());
        engine.mean(numbers);
        return std::vector<double>{};
      },
      [own](Engine::Impl& engine) {
        std::vector<double> again = own;
        engine.mean(again);
      });
}

std::vector<double> ViewFollower::gather(double value) {
  return operate(
      [&](Engine::Impl& engine) {
        std::optional<WorkerId> missing;
        std::vector<double> values = engine.gather(value, &missing);
        if (views_ && missing) throw Error(cat(*missing, " is missing"), cat(world_.self(), ", gather"));
        return values;
      },
      {});
}

}  // namespace kith::engine

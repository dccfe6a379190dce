#include "kith/train/run/slow_worker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <vector>

#include "kith/base/host_name.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

constexpr double kAbove = 1.25;  // the median
constexpr double kCosts = 0.05;  // of everybody's time

std::string key_of(WorkerId worker) {
  return cat("train/host/", worker.value);
}

double median_of(std::span<const double> numbers) {
  std::vector<double> sorted;
  std::ranges::copy_if(numbers, std::back_inserter(sorted), [](double n) { return !std::isnan(n); });
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace

std::string text_of(const SlowWorker& slow, const std::string& host) {
  std::array<char, 160> text{};
  std::snprintf(
      text.data(), text.size(),
      " is the slowest: %.2g s of its own a step, the median is %.2g s; waiting for it took %.0f%% of "
      "everybody's time",
      slow.own, slow.median, 100 * slow.share);
  return cat("worker ", slow.worker.value, host.empty() ? "" : cat(" on ", host), text.data());
}

std::optional<Rank> slowest_of(std::span<const double> own) {
  std::vector<double> known(own.begin(), own.end());
  std::erase_if(known, [](double seconds) { return std::isnan(seconds); });
  if (known.size() < 2) return std::nullopt;
  const double largest = *std::ranges::max_element(known);
  if (largest < kAbove * median_of(known) || largest <= 0) return std::nullopt;
  return static_cast<Rank>(std::ranges::find(own, largest) - own.begin());
}

SlowWorkers::SlowWorkers(const engine::WorldParts& world, int most) : world_(world), most_(most) {
  world.store->set(key_of(world.self()), host_name());
}

void SlowWorkers::note(const StepMetrics& metrics) {
  steps_ += 1;
  seconds_ += metrics.seconds;
  waited_ += metrics.waited_seconds;
  for (const PeerMetrics& peer : metrics.peers)
    waited_for_[peer.peer] += peer.waited_seconds;
}

std::optional<SlowWorker> SlowWorkers::ask(DecentralizedDataParallel& wrapped) {
  const std::vector<double> own = wrapped.gather(steps_ > 0 ? (seconds_ - waited_) / steps_ : NAN);
  const std::optional<Rank> slowest = slowest_of(own);
  const Members members = wrapped.world().members;
  std::optional<SlowWorker> found;
  if (slowest && *slowest < members.size())
    found = {members.at(*slowest), own[static_cast<std::size_t>(*slowest)], median_of(own), 0};
  // Whoever has seen other members asks for somebody else, and still asks: all come here.
  const auto known = found ? waited_for_.find(found->worker) : waited_for_.end();
  const double waited = known == waited_for_.end() ? 0 : std::min(known->second, waited_);
  double sum = 0;
  const std::vector<double> shares = wrapped.gather(seconds_ > 0 ? waited / seconds_ : 0);
  for (const double share : shares)
    sum += std::isnan(share) ? 0 : share;
  steps_ = seconds_ = waited_ = 0;
  waited_for_.clear();
  if (found) found->share = sum / static_cast<double>(shares.size());
  if (found && found->share < kCosts) found.reset();
  named_ = found && found->worker == world_.self() ? named_ + 1 : 0;
  return found;
}

void SlowWorkers::say_it_leaves() const {
  world_.log->warning(
      cat("leaves: the others waited for it in ", named_, " evaluations in a row (world.leave_out_slow)"));
}

void SlowWorkers::say_it_stays() const {
  if (named_ != most_) return;
  world_.log->warning(
      "is too slow, and stays: the others cannot do without it (world.least, or it serves the store)");
}

std::string SlowWorkers::host_of(WorkerId worker) const {
  return world_.store->get(key_of(worker)).value_or("");
}

}  // namespace kith::train

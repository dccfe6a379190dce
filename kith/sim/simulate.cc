#include "kith/sim/simulate.h"

#include <algorithm>
#include <numeric>

#include "kith/base/check.h"
#include "kith/sim/block.h"
#include "kith/sim/durations.h"
#include "kith/sim/mixing.h"

namespace kith::sim {
namespace {

// Workers' ends of iteration, and what a Result says about them.
class Record {
 public:
  explicit Record(int workers)
      : workers_(static_cast<std::size_t>(workers)),
        now((workers_ + kLanes - 1) / kLanes * kLanes, 0.0),
        waited(now.size(), 0.0),
        last_(workers_, 0.0) {}

  double mean_now() const { return mean(now); }

  void begin_counting() {
    start_ = mean_now();
    std::fill(waited.begin(), waited.end(), 0.0);
    std::copy_n(now.begin(), workers_, last_.begin());
  }

  // Notes how long the sampled workers' iteration took.
  void count_iteration() {
    const std::size_t stride = (workers_ + 63) / 64;
    for (std::size_t i = 0; i < workers_; i += stride) {
      samples_.push_back(now[i] - last_[i]);
      last_[i] = now[i];
    }
    ++iterations_;
  }

  Result result(const Traffic& traffic, int nodes) {
    const double count = iterations_;
    Result result;
    result.iteration_s = (mean_now() - start_) / count;
    result.low_s = quantile(0.05);
    result.high_s = quantile(0.95);
    result.waited_s = mean(waited) / count;
    result.channel_s = traffic.channel_s / count / static_cast<double>(workers_);
    result.nic_bytes = traffic.nic_bytes / count / nodes;
    if (result.channel_s > 0) result.hidden = 1 - std::min(1.0, result.waited_s / result.channel_s);
    return result;
  }

 private:
  double mean(const std::vector<double>& by_worker) const {
    return std::accumulate(by_worker.begin(), by_worker.begin() + static_cast<std::ptrdiff_t>(workers_),
                           0.0) /
           static_cast<double>(workers_);
  }

  double quantile(double q) {
    const auto at =
        samples_.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(samples_.size() - 1) + 0.5);
    std::nth_element(samples_.begin(), at, samples_.end());
    return *at;
  }

  const std::size_t workers_;

 public:
  std::vector<double> now;     // by worker, padded to whole blocks
  std::vector<double> waited;  // likewise

 private:
  std::vector<double> last_;
  std::vector<double> samples_;
  double start_ = 0;
  int iterations_ = 0;
};

// Keeps the plans of a period, unless they are too many: then each is made when it is needed.
class RoundPlans {
 public:
  RoundPlans(const Scenario& scenario, CostBook& book)
      : schedule_(*scenario.schedule), placement_(scenario.placement), book_(book) {
    constexpr std::int64_t kMostKept = std::int64_t{1} << 23;  // worker-rounds
    if (schedule_.period() * placement_.workers() <= kMostKept)
      kept_.resize(static_cast<std::size_t>(schedule_.period()));
  }

  const RoundPlan& at(std::int64_t t) {
    RoundPlan& plan = kept_.empty() ? once_ : kept_[static_cast<std::size_t>(t % schedule_.period())];
    if (kept_.empty() || plan.components.empty()) plan = plan_round(schedule_, t, placement_, book_);
    return plan;
  }

 private:
  const graph::Schedule& schedule_;
  const graph::Shape& placement_;
  CostBook& book_;
  std::vector<RoundPlan> kept_;
  RoundPlan once_;
};

Result run_schedule(const Scenario& scenario, Record& record) {
  const std::size_t buckets = scenario.job.buckets.size();
  const std::size_t blocks = record.now.size() / kLanes;
  Durations durations(scenario.job, scenario.placement.workers(), scenario.seed);
  CostBook book(scenario);
  RoundPlans plans(scenario, book);
  Mixing mixing(scenario, book);
  std::vector<double> when(blocks * buckets * kLanes, 0.0);
  const auto advance = scenario.mix_at == MixAt::backward ? mix_in_backward : mix_at_step;
  const VectorTarget target = vector_target();
  const auto compute = [&](std::int64_t t, std::size_t block) {
    advance(durations.draw(t, block), record.now.data() + block * kLanes,
            when.data() + block * buckets * kLanes, record.waited.data() + block * kLanes, target);
  };

  // Buckets that are staggered meet the network one by one, each in a round of its own.
  const auto mix_staggered = [&](std::int64_t round) {
    for (std::size_t b = 0; b < buckets; ++b) {
      const RoundPlan& plan = plans.at(round + scenario.ahead[b]);
      for (const Component& component : plan.components)
        mixing.run(plan, component, {b, b + 1}, when.data());
    }
  };

  // What is mixed in iteration t was published in iteration t - 1, by round t / every.
  const std::int64_t end = scenario.warm_up + scenario.iterations;
  for (std::int64_t t = 0; t < end; ++t) {
    if (t == scenario.warm_up) {
      record.begin_counting();
      mixing.reset_traffic();
    }
    const bool mixes = t > 0 && t % scenario.every == 0;
    if (mixes && scenario.ahead.empty()) {
      const RoundPlan& plan = plans.at(t / scenario.every);
      for (const Component& component : plan.components) {
        mixing.run(plan, component, {0, buckets}, when.data());
        for (std::size_t k = component.first_block; k < component.end_block; ++k)
          compute(t, plan.blocks[k]);
      }
    } else {
      if (mixes) mix_staggered(t / scenario.every);
      for (std::size_t block = 0; block < blocks; ++block)
        compute(t, block);
    }
    if (t >= scenario.warm_up) record.count_iteration();
  }
  return record.result(mixing.traffic(), scenario.placement.nodes());
}

Result run_all_reduce(const Scenario& scenario, Record& record) {
  const std::size_t buckets = scenario.job.buckets.size();
  const std::size_t blocks = record.now.size() / kLanes;
  const std::size_t workers = static_cast<std::size_t>(scenario.placement.workers());
  const std::vector<Cost> costs = all_reduce_costs(scenario);
  Durations durations(scenario.job, scenario.placement.workers(), scenario.seed);
  std::vector<double> latest(buckets * kLanes);
  Traffic traffic;

  const std::int64_t end = scenario.warm_up + scenario.iterations;
  for (std::int64_t t = 0; t < end; ++t) {
    if (t == scenario.warm_up) {
      record.begin_counting();
      traffic = {};
    }
    std::fill(latest.begin(), latest.end(), 0.0);
    for (std::size_t block = 0; block < blocks; ++block)
      run_gradients(durations.draw(t, block), record.now.data() + block * kLanes, latest.data());
    double reduced = 0;
    for (std::size_t b = 0; b < buckets; ++b) {
      const std::size_t ready = scenario.overlap == Overlap::backward ? b : buckets - 1;
      reduced = std::max(
          reduced, *std::max_element(latest.begin() + static_cast<std::ptrdiff_t>(ready * kLanes),
                                     latest.begin() + static_cast<std::ptrdiff_t>((ready + 1) * kLanes)));
      reduced += costs[b].seconds;
      traffic.channel_s += costs[b].seconds * static_cast<double>(workers);
      traffic.nic_bytes += costs[b].nic_bytes * scenario.placement.nodes();
    }
    for (std::size_t i = 0; i < workers; ++i) {
      record.waited[i] += reduced - record.now[i];
      record.now[i] = reduced;
    }
    for (std::size_t block = 0; block < blocks; ++block)
      run_step(durations.draw(t, block), record.now.data() + block * kLanes);
    if (t >= scenario.warm_up) record.count_iteration();
  }
  return record.result(traffic, scenario.placement.nodes());
}

// What travels while nobody waits for it travels under somebody's forward and backward, which it slows down.
Scenario slowed_by_messages(const Scenario& scenario) {
  Scenario slowed = scenario;
  slowed.job.message_s_per_byte = 0;
  const Result free = simulate(slowed);
  const double sent = free.nic_bytes * scenario.placement.nodes() / scenario.placement.workers();
  const double lost_s = sent * free.hidden * scenario.job.message_s_per_byte;
  slowed.job = slowed.job.with_compute_scaled(1 + lost_s / scenario.job.forward_backward_s());
  return slowed;
}

}  // namespace

Result simulate(const Scenario& scenario) {
  VirtualClock clock;
  return simulate(scenario, clock);
}

Result simulate(const Scenario& scenario, VirtualClock& clock) {
  check(scenario);
  if (scenario.job.message_s_per_byte > 0) return simulate(slowed_by_messages(scenario), clock);
  Record record(scenario.placement.workers());
  const Result result = scenario.schedule ? run_schedule(scenario, record) : run_all_reduce(scenario, record);
  const auto workers = record.now.begin() + scenario.placement.workers();
  clock.advance(from_seconds(*std::max_element(record.now.begin(), workers)));
  return result;
}

}  // namespace kith::sim

#include "kith/gossip/link_probe.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <variant>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/gossip/machine_reducer.h"
#include "kith/gossip/tree.h"
#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::gossip {
namespace {

struct Pair {
  Rank a = 0;
  Rank b = 0;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<std::vector<Rank>> by_machine(const std::vector<int>& machines) {
  std::map<int, std::vector<Rank>> found;
  for (std::size_t rank = 0; rank < machines.size(); ++rank)
    found[machines[rank]].push_back(static_cast<Rank>(rank));
  std::vector<std::vector<Rank>> all;
  for (auto& [machine, ranks] : found)
    all.push_back(std::move(ranks));
  return all;
}

class Probe {
 public:
  Probe(comm::Transport& transport, const Members& members, const Clock& clock,
        const LinkProbeOptions& options)
      : members_(members),
        clock_(clock),
        options_(options),
        self_(members.rank_of(transport.self())),
        kernels_(kernels::make_cpu_kernels<float>()),
        everybody_(transport, members, *kernels_, clock, {"probe/all", 1, options.patience}),
        read_(options.bytes / sizeof(float)) {
    comm::WindowOptions window;
    window.name = "probe/link";
    window.bytes = options.bytes;
    window.peers = members.workers;
    window_ = transport.open(window, deadline());
  }

  // Everybody's value; waits for all, so nobody talks meanwhile.
  std::vector<double> share(double value) {
    const std::vector<double> all = everybody_.gather(value, deadline());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (std::isnan(all[rank]) && !std::isnan(value)) {
        throw Error(cat(members_.at(static_cast<Rank>(rank)), " did not come"), "measuring the links",
                    "look at that worker's log");
      }
    }
    return all;
  }

  // Measures these disjoint pairs at once; the slowest one's times.
  LinkTimes measure(const std::vector<Pair>& pairs) {
    LinkTimes own;
    double slowest_s = 0;
    for (const Pair& pair : pairs) {
      if (pair.a != self_ && pair.b != self_) continue;
      const WorkerId peer = members_.at(pair.a == self_ ? pair.b : pair.a);
      own.latency_s = exchange(peer, sizeof(float));
      slowest_s = exchange(peer, options_.bytes);
    }
    const std::vector<double> latencies = share(own.latency_s);
    const std::vector<double> large = share(slowest_s);
    LinkTimes times;
    times.latency_s = *std::max_element(latencies.begin(), latencies.end());
    const double rest = *std::max_element(large.begin(), large.end()) - times.latency_s;
    times.bytes_per_s = static_cast<double>(options_.bytes) / std::max(rest, 1e-9);
    align();
    return times;
  }

 private:
  Deadline deadline() const { return clock_.now() + options_.patience; }

  // Median seconds in which both get the other's `bytes` and read them.
  double exchange(WorkerId peer, std::size_t bytes) {
    std::vector<double> seconds_each;
    const Clock::Time end = clock_.now() + options_.duration / 2;
    // Both sides must do the same number of rounds: the one with the lower id says in the weight when to
    // stop.
    const bool leads = members_.at(self_) < peer;
    for (bool more = true; more;) {
      const Clock::Time start = clock_.now();
      more = seconds_each.size() < 5 || (start < end && seconds_each.size() < 20'000);
      const Version version{members_.view, ++step_};
      const auto slot = window_->begin(version, deadline());
      if (const auto* held = std::get_if<comm::Late>(&slot))
        throw Error(cat(held->peer, " holds a probe for too long"), "measuring the links");
      window_->publish(version, {.bytes = bytes, .weight = more ? 1.0 : 0.0, .readers = {peer}});
      const comm::Outcome outcome = window_->await(peer, version, deadline());
      const auto* arrival = std::get_if<comm::Arrival>(&outcome);
      if (!arrival)
        throw Error(cat(peer, " did not answer"), "measuring the links", "look at that worker's log");
      const kernels::Source source{arrival->data().data(), DType::f32, 1};
      kernels_->mix({read_.data(), nullptr, DType::bf16}, {{&source, 1}, 1}, bytes / sizeof(float));
      if (!leads) more = arrival->header().weight > 0;
      seconds_each.push_back(seconds(clock_.now() - start));
    }
    return median(std::move(seconds_each));
  }

  // Versions rise alike on all members.
  void align() {
    const std::vector<double> steps = share(static_cast<double>(step_));
    step_ = static_cast<std::uint64_t>(*std::max_element(steps.begin(), steps.end()));
  }

  const Members& members_;
  const Clock& clock_;
  const LinkProbeOptions options_;
  const Rank self_;
  const std::unique_ptr<kernels::Kernels<float>> kernels_;
  Tree<float> everybody_;
  std::vector<float> read_;
  std::unique_ptr<comm::Window> window_;
  std::uint64_t step_ = 0;
};

LinkTimes middle(const std::vector<LinkTimes>& all) {
  std::vector<double> latencies, rates;
  for (const LinkTimes& times : all) {
    latencies.push_back(times.latency_s);
    rates.push_back(times.bytes_per_s);
  }
  return {median(std::move(latencies)), median(std::move(rates))};
}

}  // namespace

LinkReport probe_links(comm::Transport& transport, const Members& members, const Clock& clock,
                       const LinkProbeOptions& options) {
  Probe probe(transport, members, clock, options);
  const auto machines = by_machine(machines_of(transport, members));
  LinkReport report;
  std::vector<LinkTimes> inside, between;
  for (const auto& ranks : machines) {
    if (ranks.size() < 2 || static_cast<int>(inside.size()) >= options.most_pairs) continue;
    inside.push_back(probe.measure({{ranks[0], ranks[1]}}));
  }
  for (std::size_t m = 1; m < machines.size() && static_cast<int>(between.size()) < options.most_pairs; ++m)
    between.push_back(probe.measure({{machines[m - 1].front(), machines[m].front()}}));
  if (!inside.empty()) report.inside = middle(inside);
  if (machines.size() < 2) return report;
  report.between = middle(between);
  const std::size_t flows = std::min(machines[0].size(), machines[1].size());
  std::vector<Pair> together;
  for (std::size_t k = 0; k < flows; ++k)
    together.push_back({machines[0][k], machines[1][k]});
  report.nic_bytes_per_s = flows == 1 ? report.between->bytes_per_s
                                      : probe.measure(together).bytes_per_s * static_cast<double>(flows);
  return report;
}

double probe_memory(comm::Transport& transport, const Members& members, const Clock& clock,
                    const LinkProbeOptions& options) {
  const auto kernels = kernels::make_cpu_kernels<float>();
  Tree<float> everybody(transport, members, *kernels, clock, {"probe/memory", 1, options.patience});
  // Past every cache that one worker may count on.
  const std::size_t count = std::size_t{16} << 20;
  std::vector<float> from(count, 1), to(count);
  const kernels::Source source{from.data(), DType::f32, 1};
  everybody.gather(0, clock.now() + options.patience);
  std::vector<double> seconds_each;
  for (const Clock::Time end = clock.now() + options.duration;
       clock.now() < end || seconds_each.size() < 3;) {
    const Clock::Time start = clock.now();
    kernels->mix({to.data(), nullptr, DType::bf16}, {{&source, 1}, 1}, count);
    seconds_each.push_back(seconds(clock.now() - start));
  }
  const double own = 2.0 * static_cast<double>(count * sizeof(float)) / median(std::move(seconds_each));
  const std::vector<double> all = everybody.gather(own, clock.now() + options.patience);
  double sum = 0;
  for (double rate : all)
    sum += std::isnan(rate) ? own : rate;
  return sum / static_cast<double>(all.size());
}

}  // namespace kith::gossip

#include "kith/sim/shared_cores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kTiny = 1e-12;

// What a worker is at: the passes of an iteration in order, then the next iteration.
//   pass 0              forward
//   passes 1 .. B       backward of bucket pass - 1
//   passes B+1 .. 2B    mix and step of bucket pass - B - 1, after what it needs has come
struct Worker {
  std::int64_t iteration = 0;
  std::size_t pass = 0;
  double work_s = 0;      // left of this pass, on a core of its own
  double messages_s = 0;  // left of what messages cost, by another thread
  bool waiting = false;
  double waited_s = 0;
  double since = 0;  // when it began to wait
};

// Bytes on their way from node to node. What leaves, or enters, a node at the same time shares its NIC.
struct Flow {
  std::size_t from = 0;
  std::size_t to = 0;
  double left_s = 0;  // that the NIC alone would need
  std::size_t transfer = 0;
};

// Flows that belong together: when the last one has come, somebody has what it waits for.
struct Transfer {
  std::size_t flows = 0;
  double rest_s = 0;  // latencies and what does not pass a NIC
  double* arrival = nullptr;
};

class SharedRun {
 public:
  SharedRun(const Scenario& scenario, const SharedCores& shared)
      : scenario_(scenario),
        shared_(shared),
        buckets_(scenario.job.buckets.size()),
        workers_(static_cast<std::size_t>(scenario.placement.workers())),
        finished_(workers_.size()) {
    if (!scenario.schedule) all_reduce_ = all_reduce_costs(scenario);
  }

  Result run() {
    const std::int64_t end = scenario_.warm_up + scenario_.iterations;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      for (std::size_t b = 0; scenario_.schedule && b < buckets_; ++b)
        publish(w, 0, b);
    }
    for (std::size_t w = 0; w < workers_.size(); ++w)
      enter(w);
    while (std::any_of(workers_.begin(), workers_.end(), [&](const Worker& w) { return w.iteration < end; }))
      advance();
    return result();
  }

 private:
  using Key = std::pair<std::int64_t, std::size_t>;  // iteration, bucket

  int node_of(std::size_t worker) const { return scenario_.placement.node_of(static_cast<Rank>(worker)); }
  bool same_node(std::size_t a, std::size_t b) const { return node_of(a) == node_of(b); }

  double pass_work(std::size_t worker, std::size_t pass) const {
    const Job& job = scenario_.job;
    const double slowness = job.slowness.empty() ? 1 : job.slowness[worker];
    if (pass == 0) return job.forward.mean_s() * slowness;
    if (pass <= buckets_) return job.buckets[pass - 1].backward.mean_s() * slowness;
    const std::size_t bucket = pass - buckets_ - 1;
    return job.buckets[bucket].step.mean_s() + mixing_work(worker, bucket);
  }

  double mixing_work(std::size_t worker, std::size_t bucket) const {
    if (shared_.mixing_seconds_per_byte == 0) return 0;
    if (scenario_.schedule) {
      const graph::WorkerRound round = round_of(worker, workers_[worker].iteration, bucket);
      if (graph::reads_of(round, static_cast<Rank>(worker)).empty()) return 0;
    }
    return scenario_.job.buckets[bucket].bytes * shared_.mixing_seconds_per_byte;
  }

  graph::WorkerRound round_of(std::size_t worker, std::int64_t iteration, std::size_t bucket) const {
    graph::WorkerRound alone;
    alone.group = {static_cast<Rank>(worker)};
    if ((iteration + 1) % scenario_.every != 0) return alone;
    const std::int64_t ahead = scenario_.ahead.empty() ? 0 : scenario_.ahead[bucket];
    return scenario_.schedule->round(static_cast<Rank>(worker),
                                     (iteration + 1) / scenario_.every - 1 + ahead);
  }

  // When what the worker's pass needs is there.
  double ready_at(std::size_t worker) const {
    const Worker& w = workers_[worker];
    if (w.pass <= buckets_) return 0;
    const std::size_t bucket = w.pass - buckets_ - 1;
    if (!scenario_.schedule) {
      const auto found = reduced_.find({w.iteration, buckets_ - 1});
      return found == reduced_.end() ? kNever : found->second;
    }
    double ready = 0;
    const graph::WorkerRound round = round_of(worker, w.iteration, bucket);
    if (round.form == graph::Form::group && round.group.size() > 2) {
      const auto found = grouped_.find({{w.iteration, bucket}, round.group.front()});
      return found == grouped_.end() ? kNever : found->second;
    }
    for (Rank source : graph::reads_of(round, static_cast<Rank>(worker))) {
      const auto found = arrivals_.find({{w.iteration, bucket}, {source, static_cast<Rank>(worker)}});
      if (found == arrivals_.end()) return kNever;
      ready = std::max(ready, found->second);
    }
    return ready;
  }

  void enter(std::size_t worker) {
    Worker& w = workers_[worker];
    w.work_s = pass_work(worker, w.pass);
    w.waiting = ready_at(worker) > now_ + kTiny;
    w.since = now_;
  }

  // To the next moment at which something changes.
  void advance() {
    double active = 0;
    for (const Worker& w : workers_)
      active += (w.waiting ? 0 : 1) + (w.messages_s > 0 ? 1 : 0);
    const double speed = active > 0 ? std::min(1.0, shared_.cores / active) : 0;
    double next = kNever;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const Worker& w = workers_[i];
      next = std::min(next, w.waiting ? ready_at(i) : now_ + w.work_s / speed);
      if (w.messages_s > 0) next = std::min(next, now_ + w.messages_s / speed);
    }
    const std::vector<double> rates = flow_rates();
    for (std::size_t f = 0; f < flows_.size(); ++f)
      next = std::min(next, now_ + flows_[f].left_s / rates[f]);
    KITH_CHECK(std::isfinite(next), "somebody computes, or something is under way");
    for (std::size_t f = 0; f < flows_.size(); ++f)
      flows_[f].left_s -= (next - now_) * rates[f];
    for (Worker& w : workers_) {
      if (!w.waiting) w.work_s -= (next - now_) * speed;
      w.messages_s -= (next - now_) * speed;
      if (w.messages_s <= kTiny) w.messages_s = 0;
    }
    now_ = std::max(now_, next);
    finish_flows();
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      Worker& w = workers_[i];
      if (w.waiting && ready_at(i) <= now_ + kTiny) {
        w.waiting = false;
        if (counting(w.iteration)) w.waited_s += now_ - w.since;
      } else if (!w.waiting && w.work_s <= kTiny) {
        leave(i);
      }
    }
  }

  bool counting(std::int64_t iteration) const { return iteration >= scenario_.warm_up; }

  // The end of a pass.
  void leave(std::size_t worker) {
    Worker& w = workers_[worker];
    if (w.pass >= 1 && w.pass <= buckets_ && !scenario_.schedule) gradient_ready(w.iteration, w.pass - 1);
    if (w.pass > buckets_ && scenario_.schedule) publish(worker, w.iteration + 1, w.pass - buckets_ - 1);
    if (++w.pass > 2 * buckets_) {
      w.pass = 0;
      ++w.iteration;
      finished_[worker].push_back(now_);
    }
    enter(worker);
  }

  void spend(std::size_t worker, double bytes) {
    workers_[worker].messages_s += bytes * shared_.seconds_per_byte;
  }

  // By flow: the share of a NIC that it gets. A node sends its messages one after the other, as they were
  // published (a socket's buffer takes most of a message before the next one comes); what enters a node at
  // the same time shares its NIC, max-min fair; what a message cannot use goes to the node's next one.
  std::vector<double> flow_rates() const {
    std::vector<double> rates(flows_.size(), 0.0);
    std::vector<double> left(2 * nodes(), 1.0);           // out of every node, then into every node
    std::vector<std::vector<std::size_t>> waves;          // the nodes' first messages, then their second ones
    std::vector<std::vector<std::size_t>> sent(nodes());  // by node: transfers met so far
    for (std::size_t f = 0; f < flows_.size(); ++f) {
      std::vector<std::size_t>& met = sent[flows_[f].from];
      if (met.empty() || met.back() != flows_[f].transfer) met.push_back(flows_[f].transfer);
      waves.resize(std::max(waves.size(), met.size()));
      waves[met.size() - 1].push_back(f);
    }
    for (const std::vector<std::size_t>& wave : waves)
      share(wave, left, rates);
    return rates;
  }

  // Max-min fair rates of these flows in what is left of the NICs.
  void share(std::vector<std::size_t> wave, std::vector<double>& left, std::vector<double>& rates) const {
    const auto ends = [&](std::size_t f) { return std::array{flows_[f].from, nodes() + flows_[f].to}; };
    while (!wave.empty()) {
      std::vector<int> flows(left.size(), 0);
      for (std::size_t f : wave) {
        for (std::size_t end : ends(f))
          ++flows[end];
      }
      std::size_t tightest = ends(wave.front())[0];
      for (std::size_t end = 0; end < left.size(); ++end) {
        if (flows[end] > 0 && left[end] * flows[tightest] < left[tightest] * flows[end]) tightest = end;
      }
      const double rate = left[tightest] / flows[tightest];
      std::erase_if(wave, [&](std::size_t f) {
        const auto [out, in] = ends(f);
        if (out != tightest && in != tightest) return false;
        rates[f] = rate;
        left[out] = std::max(0.0, left[out] - rate);
        left[in] = std::max(0.0, left[in] - rate);
        return true;
      });
    }
  }

  void finish_flows() {
    std::erase_if(flows_, [&](const Flow& flow) {
      if (flow.left_s > kTiny) return false;
      Transfer& transfer = transfers_[flow.transfer];
      if (--transfer.flows == 0) *transfer.arrival = now_ + transfer.rest_s;
      return true;
    });
  }

  // From each of these nodes to all the others of `to`, `cost` in all; `arrival` is set when everything has
  // come. REQUIRES: every source has another node to send to.
  void transfer(const std::vector<std::size_t>& from, const std::vector<std::size_t>& to, const Cost& cost,
                double& arrival) {
    arrival = kNever;
    Transfer next{0, std::max(0.0, cost.seconds - cost.nic_seconds), &arrival};
    for (std::size_t source : from) {
      const auto others = static_cast<double>(to.size() - std::ranges::count(to, source));
      for (std::size_t target : to) {
        if (source == target) continue;
        flows_.push_back({source, target, cost.nic_seconds / others, transfers_.size()});
        ++next.flows;
      }
    }
    transfers_.push_back(next);
  }

  std::size_t nodes() const { return static_cast<std::size_t>(scenario_.placement.nodes()); }

  void publish(std::size_t worker, std::int64_t iteration, std::size_t bucket) {
    const double bytes = wire_bytes(scenario_, scenario_.job.buckets[bucket]);
    const graph::WorkerRound round = round_of(worker, iteration, bucket);
    const auto self = static_cast<Rank>(worker);
    if (round.form == graph::Form::group && round.group.size() > 2) {
      if (++published_[{{iteration, bucket}, round.group.front()}] == round.group.size())
        average(round.group, iteration, bucket, bytes);
      return;
    }
    for (Rank reader : graph::readers_of(round, self)) {
      const auto to = static_cast<std::size_t>(reader);
      const bool inside = same_node(worker, to);
      const Cost cost = read_cost(scenario_.network, inside, bytes);
      double& arrival = arrivals_[{{iteration, bucket}, {self, reader}}];
      arrival = now_ + cost.seconds;
      if (!inside) {
        transfer({static_cast<std::size_t>(node_of(worker))}, {static_cast<std::size_t>(node_of(to))}, cost,
                 arrival);
        spend(worker, bytes);
        spend(to, bytes);
        if (counting(iteration)) nic_bytes_ += cost.nic_bytes;
      }
      if (counting(iteration)) channel_s_ += cost.seconds;
    }
  }

  void average(const std::vector<Rank>& group, std::int64_t iteration, std::size_t bucket, double bytes) {
    const GroupShape shape = group_shape(group, scenario_.placement);
    const Cost cost = group_cost(scenario_.network, scenario_.collective, shape, bytes);
    const std::vector<std::size_t> spanned = nodes_of(group);
    double& arrival = grouped_[{{iteration, bucket}, group.front()}];
    arrival = now_ + cost.seconds;
    if (spanned.size() > 1) transfer(spanned, spanned, cost, arrival);
    count(group, spanned, cost, counting(iteration));
  }

  std::vector<std::size_t> nodes_of(const std::vector<Rank>& group) const {
    std::vector<std::size_t> nodes;
    for (Rank rank : group)
      nodes.push_back(static_cast<std::size_t>(node_of(static_cast<std::size_t>(rank))));
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  }

  // Processor time and bytes of an operation of these workers.
  void count(const std::vector<Rank>& group, const std::vector<std::size_t>& nodes, const Cost& cost,
             bool counts) {
    if (nodes.size() > 1) {
      const double each =
          cost.nic_bytes * static_cast<double>(nodes.size()) / static_cast<double>(group.size());
      for (Rank rank : group)
        spend(static_cast<std::size_t>(rank), 2 * each);
      if (counts) nic_bytes_ += cost.nic_bytes * static_cast<double>(nodes.size());
    }
    if (counts) channel_s_ += cost.seconds * static_cast<double>(group.size());
  }

  // All-reduces follow each other, each over all NICs at once.
  void gradient_ready(std::int64_t iteration, std::size_t bucket) {
    if (++published_[{{iteration, bucket}, 0}] < workers_.size()) return;
    std::vector<Rank> everybody(workers_.size());
    for (std::size_t i = 0; i < everybody.size(); ++i)
      everybody[i] = static_cast<Rank>(i);
    reduction_free_ = std::max(reduction_free_, now_) + all_reduce_[bucket].seconds;
    count(everybody, nodes_of(everybody), all_reduce_[bucket], counting(iteration));
    reduced_[{iteration, bucket}] = reduction_free_;
  }

  Result result() const {
    std::vector<double> lengths;
    double waited = 0;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      waited += workers_[i].waited_s;
      const auto& ends = finished_[i];
      for (std::size_t t = static_cast<std::size_t>(scenario_.warm_up); t < ends.size(); ++t) {
        if (t > 0) lengths.push_back(ends[t] - ends[t - 1]);
      }
    }
    std::sort(lengths.begin(), lengths.end());
    const auto quantile = [&](double q) {
      return lengths[static_cast<std::size_t>(q * static_cast<double>(lengths.size() - 1))];
    };
    const auto counted = static_cast<double>(scenario_.iterations) * static_cast<double>(workers_.size());
    Result result;
    for (double length : lengths)
      result.iteration_s += length / static_cast<double>(lengths.size());
    result.low_s = quantile(0.05);
    result.high_s = quantile(0.95);
    result.waited_s = waited / counted;
    result.channel_s = channel_s_ / counted;
    result.nic_bytes = nic_bytes_ / static_cast<double>(scenario_.iterations) /
                       static_cast<double>(scenario_.placement.nodes());
    result.hidden = channel_s_ > 0 ? std::clamp(1 - waited / channel_s_, 0.0, 1.0) : 1;
    return result;
  }

  const Scenario& scenario_;
  const SharedCores shared_;
  const std::size_t buckets_;
  std::vector<Worker> workers_;
  std::vector<Cost> all_reduce_;
  double now_ = 0;
  std::vector<Flow> flows_;
  std::vector<Transfer> transfers_;
  double reduction_free_ = 0;
  std::map<std::pair<Key, std::pair<Rank, Rank>>, double> arrivals_;  // of a message from, to
  std::map<std::pair<Key, Rank>, double> grouped_;                    // when a group's mean is there
  std::map<std::pair<Key, Rank>, std::size_t> published_;  // members of a group that have published
  std::map<Key, double> reduced_;
  std::vector<std::vector<double>> finished_;  // by worker: ends of its iterations
  double channel_s_ = 0;
  double nic_bytes_ = 0;
};

}  // namespace

Result simulate_shared(const Scenario& scenario, const SharedCores& shared) {
  check(scenario);
  if (shared.cores < 1) throw InputError(cat(shared.cores, " cores"), "shared cores", "at least 1");
  return SharedRun(scenario, shared).run();
}

}  // namespace kith::sim

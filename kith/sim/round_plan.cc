#include "kith/sim/round_plan.h"

#include <algorithm>
#include <numeric>

#include "kith/sim/block.h"

namespace kith::sim {
namespace {

// Union-find over the workers, then the NICs of the nodes.
class Unions {
 public:
  explicit Unions(std::size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }

  std::size_t find(std::size_t i) {
    while (parent_[i] != i)
      i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  // The smaller root wins: a component is known by its first worker.
  void join(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

template <class Op>
struct Found {
  std::size_t worker;  // any worker of the operation
  Op op;
};

// Reads the round of every worker once and notes what belongs together.
class Reader {
 public:
  Reader(const graph::Schedule& schedule, std::int64_t t, const graph::Shape& placement, CostBook& book,
         RoundPlan& plan)
      : placement_(placement),
        book_(book),
        plan_(plan),
        workers_(static_cast<std::size_t>(placement.workers())),
        unions(workers_ + static_cast<std::size_t>(placement.nodes())) {
    std::vector<bool> seen(workers_, false);
    for (std::size_t i = 0; i < workers_; ++i) {
      if (seen[i]) continue;
      const graph::WorkerRound round = schedule.round(static_cast<Rank>(i), t);
      if (round.form == graph::Form::neighbours) {
        for (const graph::Term& term : round.reads)
          add_read(term.rank, static_cast<Rank>(i));
        continue;
      }
      for (const Rank member : round.group)
        seen[static_cast<std::size_t>(member)] = true;
      if (round.group.size() > 1) add_group(round.group);
    }
  }

 private:
  std::size_t nic(int node) const { return workers_ + static_cast<std::size_t>(node); }

  void add_group(const std::vector<Rank>& members) {
    const GroupShape shape = group_shape(members, placement_);
    GroupOp op{book_.of_group(shape), plan_.runs.size(), 0, plan_.nodes.size(), 0};
    const auto first = static_cast<std::size_t>(members.front());
    int last_node = -1;
    for (std::size_t k = 0; k < members.size(); ++k) {
      const auto worker = static_cast<std::size_t>(members[k]);
      unions.join(first, worker);
      const auto block = static_cast<std::int32_t>(worker / kLanes);
      const bool extends = k > 0 && members[k] == members[k - 1] + 1 && plan_.runs.back().block == block;
      if (extends)
        ++plan_.runs.back().lanes;
      else
        plan_.runs.push_back({block, static_cast<std::int32_t>(worker % kLanes), 1});
      if (shape.nodes == 1) continue;
      const int node = placement_.node_of(members[k]);
      if (node == last_node) continue;
      last_node = node;
      plan_.nodes.push_back(node);
      unions.join(first, nic(node));
    }
    op.end_run = plan_.runs.size();
    op.end_node = plan_.nodes.size();
    groups.push_back({first, op});
  }

  void add_read(Rank source, Rank reader) {
    const int source_node = placement_.node_of(source);
    const int reader_node = placement_.node_of(reader);
    const bool crosses = source_node != reader_node;
    unions.join(static_cast<std::size_t>(source), static_cast<std::size_t>(reader));
    if (crosses) {
      unions.join(static_cast<std::size_t>(source), nic(source_node));
      unions.join(static_cast<std::size_t>(reader), nic(reader_node));
    }
    reads.push_back({static_cast<std::size_t>(reader), {book_.of_read(!crosses), source, reader, crosses}});
  }

  const graph::Shape& placement_;
  CostBook& book_;
  RoundPlan& plan_;
  const std::size_t workers_;

 public:
  Unions unions;
  std::vector<Found<GroupOp>> groups;
  std::vector<Found<ReadOp>> reads;
};

template <class Op>
void sort_by_component(std::vector<Found<Op>>& found, Unions& unions) {
  for (Found<Op>& f : found)
    f.worker = unions.find(f.worker);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.worker < b.worker; });
}

// A block is complete after the last component that one of its workers is in.
void place_blocks(std::size_t workers, Unions& unions, const std::vector<std::size_t>& roots,
                  RoundPlan& plan) {
  const std::size_t blocks = (workers + kLanes - 1) / kLanes;
  std::vector<std::size_t> after(blocks, 0);
  for (std::size_t i = 0; i < workers; ++i) {
    const auto at = std::lower_bound(roots.begin(), roots.end(), unions.find(i));
    if (at == roots.end() || *at != unions.find(i)) continue;
    after[i / kLanes] = std::max(after[i / kLanes], static_cast<std::size_t>(at - roots.begin()));
  }
  plan.blocks.resize(blocks);
  std::iota(plan.blocks.begin(), plan.blocks.end(), std::size_t{0});
  std::stable_sort(plan.blocks.begin(), plan.blocks.end(),
                   [&](std::size_t a, std::size_t b) { return after[a] < after[b]; });
  std::size_t next = 0;
  for (std::size_t k = 0; k < plan.components.size(); ++k) {
    plan.components[k].first_block = next;
    while (next < blocks && after[plan.blocks[next]] == k)
      ++next;
    plan.components[k].end_block = next;
  }
}

}  // namespace

int CostBook::of_group(const GroupShape& group) {
  return add(group, false);
}

int CostBook::of_read(bool inside) {
  return add({2, inside ? 1 : 2, inside ? 2 : 1, inside ? 2 : 1}, true);
}

int CostBook::add(const GroupShape& key, bool reads) {
  const auto [entry, fresh] = kinds_.try_emplace({key, reads}, static_cast<int>(costs_.size()));
  if (fresh) {
    std::vector<Cost> costs;
    for (const Bucket& bucket : scenario_.job.buckets)
      costs.push_back(
          group_cost(scenario_.network, scenario_.collective, key, wire_bytes(scenario_, bucket)));
    costs_.push_back(std::move(costs));
  }
  return entry->second;
}

RoundPlan plan_round(const graph::Schedule& schedule, std::int64_t t, const graph::Shape& placement,
                     CostBook& book) {
  RoundPlan plan;
  Reader reader(schedule, t, placement, book, plan);
  sort_by_component(reader.groups, reader.unions);
  sort_by_component(reader.reads, reader.unions);

  std::vector<std::size_t> roots;
  for (const auto& found : reader.groups)
    roots.push_back(found.worker);
  for (const auto& found : reader.reads)
    roots.push_back(found.worker);
  std::sort(roots.begin(), roots.end());
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());

  auto group = reader.groups.begin();
  auto read = reader.reads.begin();
  for (const std::size_t root : roots) {
    Component component;
    int crossing = 0;
    component.first_group = plan.groups.size();
    for (; group != reader.groups.end() && group->worker == root; ++group) {
      crossing += group->op.first_node != group->op.end_node;
      plan.groups.push_back(group->op);
    }
    component.first_read = plan.reads.size();
    for (; read != reader.reads.end() && read->worker == root; ++read) {
      crossing += read->op.crosses;
      plan.reads.push_back(read->op);
    }
    component.end_group = plan.groups.size();
    component.end_read = plan.reads.size();
    component.contended = crossing > 1;
    plan.components.push_back(component);
  }
  if (plan.components.empty()) plan.components.emplace_back();
  place_blocks(static_cast<std::size_t>(placement.workers()), reader.unions, roots, plan);
  return plan;
}

}  // namespace kith::sim

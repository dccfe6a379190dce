#include "kith/gossip/group_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "kith/base/check.h"

namespace kith::gossip {
namespace {

constexpr std::size_t kGrain = 16;  // a cache line of floats

}  // namespace

Extent part_of(const Extent& whole, std::size_t parts, std::size_t index, DType wire) {
  const std::size_t grain = std::max(kGrain, block_of(wire));
  const std::size_t each = ((whole.count + parts - 1) / parts + grain - 1) / grain * grain;
  const std::size_t first = std::min(whole.count, each * index);
  return {whole.first + first, std::min(each, whole.count - first)};
}

bool GroupPlan::applies(const graph::WorkerRound& round, std::span<const int> machines) {
  if (round.form != graph::Form::group || round.group.size() < 3) return false;
  const auto machine = [&](Rank rank) { return machines[static_cast<std::size_t>(rank)]; };
  return std::any_of(round.group.begin(), round.group.end(),
                     [&](Rank rank) { return machine(rank) != machine(round.group.front()); });
}

GroupPlan::GroupPlan(std::span<const Rank> group, std::span<const int> machines, Rank self, std::size_t count,
                     DType wire)
    : whole_{0, count}, wire_(wire), size_(group.size()) {
  std::map<int, std::size_t> places;
  for (Rank rank : group) {
    const int machine = machines[static_cast<std::size_t>(rank)];
    const auto [place, fresh] = places.try_emplace(machine, machines_.size());
    if (fresh) machines_.emplace_back();
    machines_[place->second].push_back(rank);
    if (rank == self) home_ = place->second;
  }
  shard_ = shard(self);

  std::set<std::size_t> cuts{shard_.first, shard_.end()};
  for (const auto& members : machines_) {
    for (std::size_t k = 0; k < members.size(); ++k) {
      const std::size_t cut = part_of(whole_, members.size(), k, wire_).first;
      if (cut > shard_.first && cut < shard_.end()) cuts.insert(cut);
    }
  }
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    Piece piece{{*cut, *std::next(cut) - *cut}, {}};
    for (const auto& members : machines_) {
      std::size_t k = 0;
      while (part_of(whole_, members.size(), k, wire_).end() <= piece.extent.first)
        ++k;
      piece.carriers.push_back(members[k]);
    }
    pieces_.push_back(std::move(piece));
  }
  for (const Piece& piece : pieces_) {
    const Extent extent = owned_part(piece, home_);
    if (extent.count > 0) owned_.push_back({extent, piece.carriers});
  }
  plan_sums();
  if (!direct()) plan_totals();
}

Extent GroupPlan::shard(Rank mate) const {
  const auto found = std::find(mates().begin(), mates().end(), mate);
  KITH_CHECK(found != mates().end(), "a mate is a member on the same machine");
  return part_of(whole_, mates().size(), static_cast<std::size_t>(found - mates().begin()), wire_);
}

Extent GroupPlan::owned_part(const Piece& piece, std::size_t machine) const {
  return direct() ? piece.extent : part_of(piece.extent, machines_.size(), machine, wire_);
}

void GroupPlan::add(std::vector<Message>& messages, Rank peer, std::size_t offset,
                    const Extent& extent) const {
  if (extent.count == 0) return;
  if (messages.empty() || messages.back().peer != peer) messages.push_back({peer, offset, 0, {}});
  messages.back().extents.push_back(extent);
  messages.back().count += extent.count;
}

void GroupPlan::plan_sums() {
  for (std::size_t m = 0; m < machines_.size(); ++m) {
    if (m == home_) continue;
    for (const Piece& piece : pieces_) {
      const Extent theirs = owned_part(piece, m);
      add(sums_out_, piece.carriers[m], flat() ? theirs.first : sums_count_, theirs);
      sums_count_ += theirs.count;
      add(sums_in_, piece.carriers[m], 0, owned_part(piece, home_));
    }
  }
}

void GroupPlan::plan_totals() {
  for (std::size_t m = 0; m < machines_.size(); ++m) {
    if (m == home_) continue;
    std::size_t packed = 0;
    for (const Piece& piece : pieces_) {
      const Extent own = owned_part(piece, home_);
      add(totals_out_, piece.carriers[m], packed, own);
      packed += own.count;
      add(totals_in_, piece.carriers[m], 0, owned_part(piece, m));
    }
    totals_count_ = packed;
  }
}

}  // namespace kith::gossip

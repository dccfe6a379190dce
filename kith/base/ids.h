#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>
#include <vector>

namespace kith {

// A worker's permanent identity in a run. Transports address peers by it; it survives changes of membership.
struct WorkerId {
  int value = -1;
  auto operator<=>(const WorkerId&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, WorkerId id) {
  return out << "worker " << id.value;
}

// A worker's index in the members of a view: what schedules speak of.
using Rank = int;

// The ordered workers that a schedule runs over, and the number of this view of them; a new view begins when
// somebody leaves or joins.
struct Members {
  std::uint32_t view = 0;
  std::vector<WorkerId> workers;  // indexed by rank

  int size() const { return static_cast<int>(workers.size()); }
  WorkerId at(Rank rank) const { return workers.at(static_cast<std::size_t>(rank)); }

  // REQUIRES: the worker is a member.
  Rank rank_of(WorkerId worker) const;

  // Workers 0..n-1 in view 0.
  static Members first(int n);
};

// What a published slot holds. Ordered: a later view is later whatever its step.
struct Version {
  std::uint32_t view = 0;
  std::uint64_t step = 0;
  auto operator<=>(const Version&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, Version v) {
  return out << v.view << ":" << v.step;
}

}  // namespace kith

template <>
struct std::hash<kith::WorkerId> {
  std::size_t operator()(kith::WorkerId id) const noexcept { return std::hash<int>{}(id.value); }
};

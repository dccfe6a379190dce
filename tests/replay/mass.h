#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kith/base/ids.h"
#include "kith/graph/schedule.h"
#include "tests/replay/records.h"

namespace kith::replay {

// Where push-sum's mass is, by the matrices and by who took what: each worker's weight after each step is
// what it kept and what it took; and what survivors hold and what went with the dead is what there was.
class MassBook {
 public:
  MassBook(int workers, graph::ScheduleOptions schedule, std::string window)
      : workers_(workers), schedule_(std::move(schedule)), window_(std::move(window)) {}

  // A worker has made the step in which it published v, and has this weight now.
  void stepped(int worker, const Members& members, Version v, double weight);
  // Empty when the account is right.
  std::string problem(const Records& records, const std::set<int>& survivors) const;
  // What went with the dead, and what late readers declined.
  double lost(const Records& records, const std::set<int>& survivors) const;

 private:
  double share(const Members& members, Version v, int from, int to) const;
  double held(int worker) const;

  const int workers_;
  const graph::ScheduleOptions schedule_;
  const std::string window_;
  std::map<std::uint32_t, Members> members_;         // by view
  std::map<std::pair<int, Version>, double> after_;  // by worker and publication
};

}  // namespace kith::replay

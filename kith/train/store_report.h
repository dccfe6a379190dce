#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kith/engine/world_parts.h"

namespace kith::train {

// Something that all workers do a part of and rank 0 completes, through the Store: everybody reports its
// part, rank 0 finishes once it has all the reports, everybody learns how it ended. Succeeds or fails on all
// workers alike. One use.
class StoreReport {
 public:
  // `name` is the same on every worker and new in the run.
  StoreReport(const engine::WorldParts& world, std::string name, Clock::Duration patience);

  using Finish = std::function<std::string(const std::vector<std::string>& reports)>;

  // `part` returns what this worker reports; `finish` runs on rank 0 with all reports by rank, and what it
  // returns is returned to everybody. An Error or InputError of either is one on every worker, any other
  // exception an Error. So is a worker that is lost or does not report before the patience ends.
  std::string run(const std::function<std::string()>& part, const Finish& finish);

 private:
  std::string key(const std::string& part) const;
  // The value another worker set. Looks now and then whether that worker is still there.
  std::string await(const std::string& part, Rank from) const;
  std::string complete(const Finish& finish) const;

  const engine::WorldParts& world_;
  const std::string name_;
  const Deadline deadline_;
};

}  // namespace kith::train

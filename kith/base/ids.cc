#include "kith/base/ids.h"

#include <algorithm>

#include "kith/base/check.h"

namespace kith {

Rank Members::rank_of(WorkerId worker) const {
  const auto at = std::find(workers.begin(), workers.end(), worker);
  KITH_CHECK(at != workers.end(), cat(worker, " is not a member in view ", view));
  return static_cast<Rank>(at - workers.begin());
}

Members Members::first(int n) {
  Members members;
  for (int i = 0; i < n; ++i)
    members.workers.push_back(WorkerId{i});
  return members;
}

}  // namespace kith

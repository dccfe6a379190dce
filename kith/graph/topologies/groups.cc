// Topologies of disjoint groups: complete, ring.
#include <numeric>

#include "kith/graph/topologies/topologies.h"

namespace kith::graph {
namespace {

class Complete final : public Schedule {
 public:
  explicit Complete(const Shape& shape) : Schedule("complete", shape) {}

  std::int64_t period() const override { return 1; }
  WorkerRound round(Rank, std::int64_t) const override {
    WorkerRound out;
    out.group.resize(static_cast<std::size_t>(workers()));
    std::iota(out.group.begin(), out.group.end(), 0);
    return out;
  }
};

// Even n: pairs (0,1)(2,3).. and (1,2)(3,4)..(n-1,0) in turn. Odd n: somebody must idle; the idle place moves
// on by one each round, so the pairs alternate all the same and everybody idles once in n rounds.
class Ring final : public Schedule {
 public:
  explicit Ring(const Shape& shape) : Schedule("ring", shape) {}

  std::int64_t period() const override { return workers() % 2 == 0 ? 2 : workers(); }
  WorkerRound round(Rank rank, std::int64_t t) const override {
    const int n = workers();
    const int start = static_cast<int>(t % period());  // (start, start + 1) is a pair
    const int place = (rank - start + n) % n;
    if (n % 2 == 1 && place == n - 1) return {.group = {rank}};
    const int peer = (start + (place ^ 1)) % n;
    return {.group = {std::min(rank, peer), std::max(rank, peer)}};
  }
};

}  // namespace

std::unique_ptr<Schedule> make_complete(const ScheduleOptions& options) {
  return std::make_unique<Complete>(options.shape);
}

std::unique_ptr<Schedule> make_ring(const ScheduleOptions& options) {
  return std::make_unique<Ring>(options.shape);
}

}  // namespace kith::graph

#include <algorithm>

#include "kith/base/rng.h"
#include "kith/graph/permutation.h"
#include "kith/graph/topologies/topologies.h"

namespace kith::graph {
namespace {

constexpr std::int64_t kPeriod = 32;

// Every two rounds draw a new random order p of the workers: first the pairs (p0,p1)(p2,p3).., then
// (p1,p2)(p3,p4).. closed to a ring when n is even. So each such two rounds connect everybody, and nobody
// idles in both.
class Matching final : public Schedule {
 public:
  Matching(const Shape& shape, std::uint64_t seed) : Schedule("matching", shape), seed_(seed) {}

  std::int64_t period() const override { return workers() > 2 ? kPeriod : 1; }

  WorkerRound round(Rank rank, std::int64_t t) const override {
    const int n = workers();
    const std::int64_t step = t % period();
    const Permutation order(n, hash_words(seed_, step / 2));
    const int shift = static_cast<int>(step % 2);
    const int place = order.index_of(rank) - shift;
    int other = (place ^ 1) + shift;
    if (n % 2 == 0) other = (other + n) % n;
    if (other < 0 || other >= n) return {.group = {rank}};
    const Rank peer = order.at(other);
    return {.group = {std::min(rank, peer), std::max(rank, peer)}};
  }

 private:
  const std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Schedule> make_matching(const ScheduleOptions& options) {
  return std::make_unique<Matching>(options.shape, options.seed);
}

}  // namespace kith::graph

// Directed topologies for push-sum. Entry (i, j) is 1 / |out-neighbours of j|, j itself counted: columns sum
// to one.
#include <algorithm>
#include <bit>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/graph/permutation.h"
#include "kith/graph/topologies/topologies.h"

namespace kith::graph {
namespace {

constexpr std::int64_t kRandomPeriod = 32;

// In round t worker i sends to i + 2^(t mod ceil(log2 n)).
class ExpDirected final : public Schedule {
 public:
  explicit ExpDirected(const Shape& shape) : Schedule("exp-directed", shape) {}

  bool directed() const override { return true; }
  std::int64_t period() const override {
    return std::max<std::int64_t>(1, std::bit_width(static_cast<unsigned>(workers() - 1)));
  }
  WorkerRound round(Rank rank, std::int64_t t) const override {
    const std::int64_t n = workers();
    if (n == 1) return {.group = {rank}};
    const std::int64_t hop = std::int64_t{1} << (t % period());
    return {.form = Form::neighbours,
            .group = {},
            .self_weight = 0.5,
            .reads = {{static_cast<Rank>((rank - hop + n) % n), 0.5}},
            .readers = {static_cast<Rank>((rank + hop) % n)},
            .shares = {0.5}};
  }
};

// Everybody draws `degree` distinct receivers each round. The first round of a period is a random ring
// instead, which makes the union of a period strongly connected whatever is drawn. Finding one's senders asks
// everybody for its draw: O(n) time, O(degree) memory.
class RandomDirected final : public Schedule {
 public:
  RandomDirected(const Shape& shape, int degree, std::uint64_t seed)
      : Schedule("random-directed", shape), degree_(std::min(degree, shape.workers() - 1)), seed_(seed) {}

  bool directed() const override { return true; }
  std::int64_t period() const override { return workers() > 2 ? kRandomPeriod : 1; }

  WorkerRound round(Rank rank, std::int64_t t) const override {
    const std::int64_t step = t % period();
    if (workers() == 1) return {.group = {rank}};
    if (step == 0) return ring_round(rank);
    WorkerRound out{
        .form = Form::neighbours, .group = {}, .self_weight = weight(), .reads = {}, .readers = {}};
    draw(rank, step, out.readers);
    out.shares.assign(out.readers.size(), weight());
    std::vector<Rank> theirs;
    for (Rank other = 0; other < workers(); ++other) {
      if (other == rank) continue;
      draw(other, step, theirs);
      if (std::binary_search(theirs.begin(), theirs.end(), rank)) out.reads.push_back({other, weight()});
    }
    return out;
  }

 private:
  double weight() const { return 1.0 / (degree_ + 1); }

  WorkerRound ring_round(Rank rank) const {
    const Permutation order(workers(), seed_);
    const int n = workers(), place = order.index_of(rank);
    return {.form = Form::neighbours,
            .group = {},
            .self_weight = 0.5,
            .reads = {{order.at((place + n - 1) % n), 0.5}},
            .readers = {order.at((place + 1) % n)},
            .shares = {0.5}};
  }

  // Floyd's sampling without replacement from the other workers, ascending.
  void draw(Rank from, std::int64_t step, std::vector<Rank>& to) const {
    Rng rng(hash_words(seed_, step, from));
    to.clear();
    const int others = workers() - 1;
    for (int i = others - degree_; i < others; ++i) {
      const Rank pick = static_cast<Rank>(rng.below(static_cast<std::uint64_t>(i) + 1));
      const auto at = std::lower_bound(to.begin(), to.end(), pick);
      if (at == to.end() || *at != pick) {
        to.insert(at, pick);
      } else {
        to.push_back(i);  // larger than anything drawn so far
      }
    }
    for (Rank& rank : to)
      rank += rank >= from ? 1 : 0;
  }

  const int degree_;
  const std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Schedule> make_exp_directed(const ScheduleOptions& options) {
  return std::make_unique<ExpDirected>(options.shape);
}

std::unique_ptr<Schedule> make_random_directed(const ScheduleOptions& options) {
  if (options.degree < 1) throw InputError(cat("degree ", options.degree), "random-directed", "at least 1");
  return std::make_unique<RandomDirected>(options.shape, options.degree, options.seed);
}

}  // namespace kith::graph

#include "kith/gossip/tree.h"

#include <bit>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "kith/gossip/collective.h"
#include "tests/gossip/gossip_support.h"

namespace kith::gossip {
namespace {

TEST(TreePlace, IsOneTreeOverStretchesOfRanks) {
  for (int size = 1; size <= 300; ++size) {
    std::set<Rank> seen;
    for (Rank rank = 0; rank < size; ++rank) {
      const TreePlace place = TreePlace::of(size, rank);
      ASSERT_EQ(place.self, rank);
      ASSERT_LE(place.children.size(), 2u);
      Rank next = rank + 1;  // the children's subtrees lie one after the other
      for (const Rank child : place.children) {
        ASSERT_EQ(child, next) << size;
        const TreePlace below = TreePlace::of(size, child);
        ASSERT_EQ(below.parent, rank) << size;
        ASSERT_TRUE(seen.insert(child).second) << size;
        next = below.end;
      }
      ASSERT_EQ(next, place.end) << size;
    }
    EXPECT_EQ(static_cast<int>(seen.size()), size - 1);
    EXPECT_EQ(TreePlace::of(size, 0).end, size);
  }
}

TEST(TreePlace, NobodyIsFartherFromTheRootThanTheLogarithm) {
  for (const int size : {1, 2, 3, 8, 100, 256, 1000, 4096}) {
    for (Rank rank = 0; rank < size; ++rank) {
      int depth = 0;
      for (Rank at = rank; at != 0; at = TreePlace::of(size, at).parent)
        ++depth;
      ASSERT_LT(depth, std::bit_width(static_cast<unsigned>(size))) << rank << " of " << size;
    }
  }
}

TEST(TreePlace, TheWayToAnotherEndsThere) {
  constexpr int kSize = 37;
  for (Rank from = 0; from < kSize; ++from) {
    for (Rank to = 0; to < kSize; ++to) {
      Rank at = from;
      for (int hops = 0; at != to && hops < 12; ++hops)
        at = TreePlace::of(kSize, at).towards(to);
      ASSERT_EQ(at, to) << from;
    }
  }
}

struct Case {
  std::string backend;
  int workers;
  std::size_t count;
  std::vector<int> machines = {};  // threads that stand for workers of several machines
};

class Trees : public testing::TestWithParam<Case> {
 protected:
  std::vector<std::string> run(const std::function<std::string(support::Worker&, Tree<double>&)>& body) {
    const support::WorkerBody run_one = [&](support::Worker& worker) {
      const SteadyClock clock;
      const auto kernels = kernels::make_cpu_kernels<double>();
      Tree<double> tree(worker.transport, Members::first(worker.size), *kernels, clock,
                        {"all", GetParam().count, std::chrono::seconds(30)});
      return body(worker, tree);
    };
    if (!GetParam().machines.empty())
      return support::run_threads(GetParam().workers, run_one, GetParam().machines);
    return support::run_world(GetParam().backend, GetParam().workers, run_one);
  }
};

// In rank order, as everybody who reads everybody would: in one message and from rank to rank, on one machine
// and on several.
TEST_P(Trees, MeanHasTheBitsOfSumsInRankOrder) {
  const std::size_t count = GetParam().count;
  const auto reports = run([&](support::Worker& worker, Tree<double>& tree) {
    std::vector<double> x = first_vector(worker.rank, count);
    for (double& value : x)
      value = std::exp(20 * value);  // sums in another order differ
    EXPECT_TRUE(tree.mean(x, support::in_time()).complete());
    return bytes_of<double>(x);
  });
  std::vector<double> mean(count, 0);
  for (int rank = 0; rank < GetParam().workers; ++rank) {
    const std::vector<double> x = first_vector(rank, count);
    for (std::size_t k = 0; k < count; ++k)
      mean[k] += std::exp(20 * x[k]);
  }
  for (double& value : mean)
    value *= 1.0 / GetParam().workers;
  for (const std::string& report : reports)
    EXPECT_EQ(values_of<double>(report), mean);
}

TEST_P(Trees, BroadcastFromEveryRootThenShorterMeans) {
  const int workers = GetParam().workers;
  const auto reports = run([&](support::Worker& worker, Tree<double>& tree) {
    std::vector<double> x;
    for (Rank root = 0; root < worker.size; ++root) {
      x = first_vector(worker.rank, GetParam().count);
      tree.broadcast(x, root, support::in_time());
      EXPECT_EQ(x, first_vector(root, GetParam().count));
    }
    std::vector<double> part(x.begin(), x.begin() + 1);
    for (int i = 0; i < 5; ++i)
      tree.mean(part, support::in_time());
    EXPECT_NEAR(part[0], x[0], 1e-15);
    return bytes_of<double>(x);
  });
  const std::vector<double> last = first_vector(workers - 1, GetParam().count);
  for (const std::string& report : reports)
    EXPECT_EQ(values_of<double>(report), last);
}

TEST_P(Trees, GatherAndConsensusDistance) {
  const std::size_t count = GetParam().count;
  const int workers = GetParam().workers;
  const Eigen::MatrixXd x = first_vectors(workers, count);
  const Eigen::RowVectorXd mean = x.colwise().mean();
  const double expected = (x.rowwise() - mean).squaredNorm() / workers;
  run([&](support::Worker& worker, Tree<double>& tree) {
    const std::vector<double> values = tree.gather(worker.rank * 10, support::in_time());
    for (int rank = 0; rank < workers; ++rank)
      EXPECT_EQ(values[static_cast<std::size_t>(rank)], rank * 10);
    const std::vector<double> mine = first_vector(worker.rank, count);
    EXPECT_NEAR(tree.squared_consensus_distance(mine, support::in_time()), expected, 1e-9 * expected + 1e-12);
    return std::string();
  });
}

std::string case_name(const testing::TestParamInfo<Case>& test) {
  return test.param.backend + "_" + std::to_string(test.param.workers) + "_" +
         std::to_string(test.param.count) +
         (test.param.machines.empty() ? "" : cat("_on_", test.param.machines.back() + 1, "_machines"));
}

INSTANTIATE_TEST_SUITE_P(Gossip, Trees,
                         testing::Values(Case{"inproc", 1, 9}, Case{"inproc", 2, 40'001},
                                         Case{"inproc", 3, 1000}, Case{"inproc", 5, 40'001},
                                         Case{"inproc", 13, 16'384}, Case{"inproc", 40, 2000},
                                         Case{"shm", 2, 1000}, Case{"shm", 5, 40'001}, Case{"shm", 9, 1000},
                                         Case{"inproc", 5, 40'001, {0, 0, 1, 2, 2}}),
                         case_name);

std::vector<Case> network_cases() {
  if (support::network_backends().empty()) return {};
  return {Case{"ucx", 3, 1000}, Case{"ucx", 5, 40'001}};
}
INSTANTIATE_TEST_SUITE_P(Network, Trees, testing::ValuesIn(network_cases()), case_name);

TEST(Tree, HasTheBitsOfAllReduce) {
  support::run_world("inproc", 6, [](support::Worker& worker) {
    const SteadyClock clock;
    const auto kernels = kernels::make_cpu_kernels<float>();
    for (const std::size_t count : {std::size_t{3}, std::size_t{200'000}}) {
      Collective<float> direct(worker.transport, Members::first(6), *kernels, clock,
                               {cat("direct", count), count, std::chrono::seconds(30)});
      Tree<float> tree(worker.transport, Members::first(6), *kernels, clock,
                       {cat("tree", count), count, std::chrono::seconds(30)});
      const std::vector<double> own = first_vector(worker.rank, count);
      std::vector<float> x(own.begin(), own.end()), y = x;
      EXPECT_TRUE(direct.mean(x, support::in_time()).complete());
      EXPECT_TRUE(tree.mean(y, support::in_time()).complete());
      EXPECT_EQ(x, y) << count;
    }
    return std::string();
  });
}

TEST(Tree, AWorkerSharesAWindowWithAtMostFive) {
  support::run_world("inproc", 33, [](support::Worker& worker) {
    const SteadyClock clock;
    const auto kernels = kernels::make_cpu_kernels<double>();
    Tree<double> tree(worker.transport, Members::first(33), *kernels, clock,
                      {"all", 100'000, std::chrono::seconds(30)});
    std::vector<double> x(100'000, worker.rank);
    tree.mean(x, support::in_time());
    tree.broadcast(x, 17, support::in_time());
    tree.gather(1, support::in_time());
    std::size_t met = 0;
    std::uint64_t sent = 0;
    for (const auto& [peer, line] : worker.transport.ledger()) {
      if (line.versions_named > 0 || line.arrivals > 0) ++met;
      sent += line.bytes_offered;
    }
    EXPECT_LE(met, 5u);
    // Four vectors for the mean and three for the broadcast at most, and the numbers.
    EXPECT_LE(sent, 7 * x.size() * sizeof(double) + 10'000);
    return std::string();
  });
}

// Whoever it is: nobody waits until its deadline, and all are told of it.
TEST(Tree, AMemberThatIsGoneIsToldToAllAtOnce) {
  for (const int victim : {0, 1, 3, 8}) {
    for (const std::size_t count : {std::size_t{2}, std::size_t{50'000}}) {
      support::run_world("inproc", 9, [&](support::Worker& worker) {
        const SteadyClock clock;
        const auto kernels = kernels::make_cpu_kernels<double>();
        Tree<double> tree(worker.transport, Members::first(9), *kernels, clock,
                          {"all", count, std::chrono::seconds(30)});
        if (worker.rank == victim) support::die(worker);
        const Clock::Time begin = clock.now();
        std::vector<double> x(count, worker.rank);
        const RoundReport report = tree.mean(x, support::in(std::chrono::minutes(5)));
        EXPECT_EQ(report.missing(), WorkerId{victim}) << "worker " << worker.rank;
        EXPECT_EQ(x, std::vector<double>(count, worker.rank));
        std::optional<WorkerId> missing;
        const std::vector<double> all = tree.gather(1, support::in(std::chrono::minutes(5)), &missing);
        EXPECT_EQ(missing, WorkerId{victim}) << "worker " << worker.rank;
        EXPECT_TRUE(std::isnan(all[static_cast<std::size_t>(victim)]));
        EXPECT_EQ(all[static_cast<std::size_t>(worker.rank)], 1);
        EXPECT_LT(clock.now() - begin, std::chrono::minutes(1));
        return std::string();
      });
    }
  }
}

// Who is late is missing in that operation alone: the next is as any other.
TEST(Tree, GoesOnAfterOneThatWasLate) {
  support::run_world("inproc", 4, [](support::Worker& worker) {
    const SteadyClock clock;
    const auto kernels = kernels::make_cpu_kernels<double>();
    Tree<double> tree(worker.transport, Members::first(4), *kernels, clock,
                      {"all", 10, std::chrono::seconds(30)});
    const bool late = worker.rank == 1;
    for (int rank = 0; late && rank < 4; ++rank) {
      if (rank != 1) worker.store.wait(cat("gave up/", rank), support::in_time());
    }
    std::optional<WorkerId> missing;
    tree.gather(0, support::in(std::chrono::milliseconds(200)), &missing);
    EXPECT_TRUE(missing) << worker.rank;
    worker.store.set(cat("gave up/", worker.rank), "");
    worker.store.wait("gave up/1", support::in_time());
    const std::vector<double> all = tree.gather(worker.rank, support::in_time());
    EXPECT_EQ(all, (std::vector<double>{0, 1, 2, 3}));
    return std::string();
  });
}

}  // namespace
}  // namespace kith::gossip

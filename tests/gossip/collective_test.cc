#include "kith/gossip/collective.h"

#include <gtest/gtest.h>

#include "tests/gossip/gossip_support.h"

namespace kith::gossip {
namespace {

struct Case {
  std::string backend;
  int workers;
  std::size_t count;
  std::vector<int> machines = {};  // threads that stand for workers of several machines
};

class Everybody : public testing::TestWithParam<Case> {
 protected:
  std::vector<std::string> run(
      const std::function<std::string(support::Worker&, Collective<double>&)>& body) {
    const support::WorkerBody run_one = [&](support::Worker& worker) {
      const SteadyClock clock;
      const auto kernels = kernels::make_cpu_kernels<double>();
      Collective<double> collective(worker.transport, Members::first(worker.size), *kernels, clock,
                                    {"all", GetParam().count, std::chrono::seconds(30)});
      return body(worker, collective);
    };
    if (!GetParam().machines.empty())
      return support::run_threads(GetParam().workers, run_one, GetParam().machines);
    return support::run_world(GetParam().backend, GetParam().workers, run_one);
  }
};

TEST_P(Everybody, MeanIsTheMeanInTheSameBitsEverywhere) {
  const std::size_t count = GetParam().count;
  const auto reports = run([&](support::Worker& worker, Collective<double>& all) {
    std::vector<double> x = first_vector(worker.rank, count);
    const RoundReport report = all.mean(x, support::in_time());
    EXPECT_TRUE(report.complete());
    // Over shards everybody reads 2 (n-1)/n vectors, give or take the rounding of the shards; else n - 1.
    const double n = worker.size;
    const bool shards = worker.size >= 4 && count * sizeof(double) >= 256 * 1024;
    const double vectors =
        static_cast<double>(report.bytes_read) / static_cast<double>(count * sizeof(double));
    if (GetParam().machines.empty()) {
      EXPECT_NEAR(vectors, shards ? 2 * (n - 1) / n : n - 1, 0.01);
    }
    return bytes_of<double>(x);
  });
  const Eigen::RowVectorXd mean = first_vectors(GetParam().workers, count).colwise().mean();
  const auto got = values_of<double>(reports[0]);
  for (std::size_t k = 0; k < count; k += 7)
    ASSERT_NEAR(got[k], mean(static_cast<Eigen::Index>(k)), 1e-15);
  for (const std::string& report : reports)
    EXPECT_EQ(report, reports[0]);
}

TEST_P(Everybody, ShorterMeansFollow) {
  run([&](support::Worker& worker, Collective<double>& all) {
    std::vector<double> x = first_vector(worker.rank, GetParam().count);
    all.mean(x, support::in_time());
    std::vector<double> part(x.begin(), x.begin() + 1);
    for (int i = 0; i < 5; ++i)
      all.mean(part, support::in_time());
    EXPECT_NEAR(part[0], x[0], 1e-15);
    return std::string();
  });
}

std::string case_name(const testing::TestParamInfo<Case>& test) {
  return test.param.backend + "_" + std::to_string(test.param.workers) + "_" +
         std::to_string(test.param.count) +
         (test.param.machines.empty() ? "" : cat("_on_", test.param.machines.back() + 1, "_machines"));
}

INSTANTIATE_TEST_SUITE_P(Gossip, Everybody,
                         testing::Values(Case{"inproc", 1, 9}, Case{"inproc", 3, 1000},
                                         Case{"inproc", 5, 40'001}, Case{"shm", 2, 1000},
                                         Case{"shm", 4, 40'001}, Case{"inproc", 4, 40'001, {0, 0, 1, 1}},
                                         Case{"inproc", 4, 2001, {0, 1, 2, 3}},
                                         Case{"inproc", 5, 40'001, {0, 0, 1, 2, 2}}),
                         case_name);

std::vector<Case> network_cases() {
  if (support::network_backends().empty()) return {};
  return {Case{"ucx", 3, 1000}, Case{"ucx", 4, 40'001}};
}
INSTANTIATE_TEST_SUITE_P(Network, Everybody, testing::ValuesIn(network_cases()), case_name);

class Rounded : public testing::TestWithParam<Case> {};

// Half the bytes, everybody the same bits, and the mean up to the roundings on the way: of the vectors, of a
// machine's sum, of the result.
TEST_P(Rounded, MeanTravelsInSixteenBitsAndIsTheSameEverywhere) {
  const std::size_t count = GetParam().count;
  const auto run = [&](DType wire) {
    const support::WorkerBody body = [&](support::Worker& worker) {
      const SteadyClock clock;
      const auto kernels = kernels::make_cpu_kernels<float>();
      Collective<float> all(worker.transport, Members::first(worker.size), *kernels, clock,
                            {"all", count, std::chrono::seconds(30), {}, wire});
      std::vector<float> x(count);
      RoundReport report;
      for (int i = 0; i < 3; ++i) {
        const std::vector<double> first = first_vector(worker.rank, count);
        x.assign(first.begin(), first.end());
        report = all.mean(x, support::in_time());
        EXPECT_TRUE(report.complete());
      }
      return cat(report.bytes_read, ":", bytes_of<float>(x));
    };
    return GetParam().machines.empty() ? support::run_world(GetParam().backend, GetParam().workers, body)
                                       : support::run_threads(GetParam().workers, body, GetParam().machines);
  };
  const auto bytes = [](const std::string& text) { return std::stoull(text); };
  const auto vector = [](const std::string& text) { return text.substr(text.find(':') + 1); };
  const Eigen::RowVectorXd mean = first_vectors(GetParam().workers, count).colwise().mean();
  const auto plain = run(DType::f32);
  for (const auto& [wire, tolerance] :
       {std::pair{DType::bf16, 3.0 / 512}, std::pair{DType::f16, 3.0 / 4096}}) {
    const auto reports = run(wire);
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      EXPECT_EQ(vector(reports[rank]), vector(reports[0])) << name_of(wire) << ", worker " << rank;
      EXPECT_EQ(2 * bytes(reports[rank]), bytes(plain[rank])) << name_of(wire) << ", worker " << rank;
    }
    const auto got = values_of<float>(vector(reports[0]));
    ASSERT_EQ(got.size(), count);
    for (std::size_t k = 0; k < count; ++k)
      ASSERT_NEAR(got[k], mean(static_cast<Eigen::Index>(k)), tolerance)
          << name_of(wire) << ", element " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Gossip, Rounded,
                         testing::Values(Case{"inproc", 3, 1000}, Case{"inproc", 5, 70'001},
                                         Case{"shm", 4, 70'001}, Case{"inproc", 4, 70'001, {0, 0, 1, 1}},
                                         Case{"inproc", 4, 2001, {0, 0, 0, 1}},
                                         Case{"inproc", 4, 2001, {0, 1, 2, 3}},
                                         Case{"inproc", 5, 4001, {0, 0, 1, 2, 2}}),
                         case_name);

TEST(Collective, AMissingMemberIsNamedAndCountsAsOneself) {
  support::run_world("inproc", 3, [](support::Worker& worker) {
    const SteadyClock clock;
    const auto kernels = kernels::make_cpu_kernels<double>();
    Collective<double> all(worker.transport, Members::first(3), *kernels, clock,
                           {"all", 4, std::chrono::seconds(30)});
    if (worker.rank == 1) support::die(worker);
    std::vector<double> x(4, worker.rank);
    const RoundReport report = all.mean(x, support::in_time());
    EXPECT_EQ(report.lost, std::vector<WorkerId>{WorkerId{1}});
    EXPECT_NEAR(x[0], (0 + worker.rank + 2) / 3.0, 1e-15);
    return std::string();
  });
}

}  // namespace
}  // namespace kith::gossip

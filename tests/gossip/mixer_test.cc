#include "kith/gossip/mixer.h"

#include <gtest/gtest.h>

#include "tests/gossip/gossip_support.h"

namespace kith::gossip {
namespace {

struct Case {
  std::string topology;
  std::string nodes;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& topology : graph::schedule_names()) {
    if (topology == "file") continue;  // needs a file; its rounds have the same two forms
    for (const char* nodes : {"1", "2", "3", "5", "2,2", "4,2,1"})
      all.push_back({topology, nodes});
  }
  return all;
}

// Runs the rounds of one period and a bit; returns everybody's vectors.
template <class T>
std::vector<std::string> mix(const std::string& backend, const Case& c, std::size_t count, int rounds) {
  const graph::Shape shape = graph::Shape::parse(c.nodes, "test");
  const auto schedule = schedule_for(c.topology, shape);
  return support::run_world(backend, shape.workers(), [&](support::Worker& worker) {
    MixerOptions options;
    options.count = count;
    options.wire = dtype_of<T>();
    Bench<T> bench(worker, *schedule, options);
    bench->start();
    for (int t = 0; t < rounds; ++t)
      EXPECT_TRUE(bench->round(support::in_time()).complete());
    return bytes_of<T>(bench->values());
  });
}

void expect_product(const Case& c, const std::vector<std::string>& reports, std::size_t count, int rounds) {
  const auto schedule = schedule_for(c.topology, graph::Shape::parse(c.nodes, "test"));
  Eigen::MatrixXd x = first_vectors(schedule->workers(), count);
  for (int t = 0; t < rounds; ++t)
    x = graph::mixing_matrix(*schedule, t) * x;
  for (int rank = 0; rank < schedule->workers(); ++rank) {
    const auto got = values_of<float>(reports[static_cast<std::size_t>(rank)]);
    ASSERT_EQ(got.size(), count);
    for (std::size_t k = 0; k < count; ++k) {
      ASSERT_NEAR(got[k], x(rank, static_cast<Eigen::Index>(k)), 1e-6)
          << c.topology << " on " << c.nodes << ", worker " << rank << ", element " << k;
    }
  }
}

class EveryTopology : public testing::TestWithParam<Case> {};

TEST_P(EveryTopology, ThreadsMultiplyByTheMixingMatrices) {
  expect_product(GetParam(), mix<float>("inproc", GetParam(), 37, 7), 37, 7);
}

TEST_P(EveryTopology, ProcessesGiveTheBitsOfThreads) {
  EXPECT_EQ(mix<float>("shm", GetParam(), 37, 7), mix<float>("inproc", GetParam(), 37, 7));
}

class OverTheNetwork : public testing::TestWithParam<Case> {};

TEST_P(OverTheNetwork, ProcessesGiveTheBitsOfThreads) {
  EXPECT_EQ(mix<float>("ucx", GetParam(), 1037, 7), mix<float>("inproc", GetParam(), 1037, 7));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OverTheNetwork);  // in a build without UCX
std::vector<Case> network_cases() {
  if (support::network_backends().empty()) return {};
  return {{"exp", "1x4"}, {"aer", "2x2"}, {"ring", "1x3"}};
}
INSTANTIATE_TEST_SUITE_P(Gossip, OverTheNetwork, testing::ValuesIn(network_cases()),
                         [](const auto& test) { return test.param.topology; });

INSTANTIATE_TEST_SUITE_P(Gossip, EveryTopology, testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.topology + "_on_" + test.param.nodes;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

// Large enough for the shards: the second path to a group's mean.
TEST(GroupPath, ShardsGiveTheSameBitsAsReadingEverybody) {
  const std::size_t count = 70'003;
  const Case complete{"complete", "5"};
  ASSERT_TRUE(
      GroupReducer<float>::pays(schedule_for("complete", graph::Shape::single_node(5))->round(0, 0), count));
  const auto reports = mix<float>("inproc", complete, count, 1);
  for (int rank = 1; rank < 5; ++rank)
    EXPECT_EQ(reports[0], reports[static_cast<std::size_t>(rank)]);

  std::vector<float> direct(count);
  std::vector<std::vector<float>> all(5);
  for (int rank = 0; rank < 5; ++rank) {
    const auto x = first_vector(rank, count);
    all[static_cast<std::size_t>(rank)].assign(x.begin(), x.end());
  }
  std::vector<kernels::Source> sources;
  for (const auto& x : all)
    sources.push_back({x.data(), DType::f32, 1});
  kernels::make_cpu_kernels<float>()->mix({direct.data(), nullptr, {}}, {sources, 1.0 / 5}, count);
  EXPECT_EQ(values_of<float>(reports[0]), direct);
}

TEST(GroupPath, ShardsEqualTheMatrixOnProcesses) {
  const std::size_t count = 66'001;
  const Case aer{"aer", "4,4"};
  const auto reports = mix<float>("shm", aer, count, 2);
  expect_product(aer, reports, count, 2);
  EXPECT_EQ(reports, mix<float>("inproc", aer, count, 2));
}

TEST(Mixer, DoubleIsExactToRounding) {
  const Case ring{"ring", "4"};
  const auto reports = mix<double>("inproc", ring, 33, 5);
  const auto schedule = schedule_for("ring", graph::Shape::single_node(4));
  Eigen::MatrixXd x = first_vectors(4, 33);
  for (int t = 0; t < 5; ++t)
    x = graph::mixing_matrix(*schedule, t) * x;
  for (int rank = 0; rank < 4; ++rank) {
    const auto got = values_of<double>(reports[static_cast<std::size_t>(rank)]);
    for (std::size_t k = 0; k < 33; ++k)
      EXPECT_NEAR(got[k], x(rank, static_cast<Eigen::Index>(k)), 1e-15);
  }
}

TEST(PushSum, QuotientsReachTheMeanAndMassIsKept) {
  const int workers = 6;
  const auto schedule = schedule_for("random-directed", graph::Shape::single_node(workers));
  const auto reports = support::run_world("inproc", workers, [&](support::Worker& worker) {
    MixerOptions options;
    options.count = 16;
    options.wire = DType::f64;
    Bench<double> bench(worker, *schedule, options);
    bench->start();
    for (int t = 0; t < 200; ++t)
      bench->round(support::in_time());
    std::vector<double> all(bench->values().begin(), bench->values().end());
    all.push_back(bench->weight());
    return bytes_of<double>(all);
  });
  const Eigen::RowVectorXd mean = first_vectors(workers, 16).colwise().mean();
  double mass = 0;
  for (const std::string& report : reports) {
    const auto got = values_of<double>(report);
    mass += got.back();
    for (int k = 0; k < 16; ++k)
      EXPECT_NEAR(got[static_cast<std::size_t>(k)] / got.back(), mean(k), 1e-9);
  }
  EXPECT_NEAR(mass, workers, 1e-10);
}

}  // namespace
}  // namespace kith::gossip

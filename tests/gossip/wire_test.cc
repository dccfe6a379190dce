#include <cmath>

#include <gtest/gtest.h>

#include "tests/gossip/gossip_support.h"

namespace kith::gossip {
namespace {

class LossyWire : public testing::TestWithParam<DType> {};

// The mean survives any rounding of the wire, because what is lost on one side is not gained on the other.
TEST_P(LossyWire, KeepsTheMeanAndComesWithinTheWiresResolution) {
  const int workers = 5;
  const std::size_t count = 66'000;  // large enough for the shards of `complete`
  for (const char* topology : {"complete", "ring-static", "exp"}) {
    const auto schedule = schedule_for(topology, graph::Shape::single_node(workers));
    const auto reports = support::run_world("inproc", workers, [&](support::Worker& worker) {
      MixerOptions options;
      options.count = count;
      options.wire = GetParam();
      Bench<float> bench(worker, *schedule, options);
      bench->start();
      for (int t = 0; t < 40; ++t) {
        const RoundReport report = bench->round(support::in_time());
        EXPECT_EQ(report.complete(), true);
      }
      return bytes_of<float>(bench->values());
    });
    const Eigen::RowVectorXd mean = first_vectors(workers, count).colwise().mean();
    std::vector<std::vector<float>> all;
    for (const std::string& report : reports)
      all.push_back(values_of<float>(report));
    const double resolution = GetParam() == DType::bf16 ? 0x1p-8 : 0x1p-11;
    for (std::size_t k = 0; k < count; k += 97) {
      double sum = 0;
      for (const auto& x : all) {
        sum += x[k];
        ASSERT_NEAR(x[k], mean(static_cast<Eigen::Index>(k)), 4 * resolution) << topology;
      }
      ASSERT_NEAR(sum / workers, mean(static_cast<Eigen::Index>(k)), 2e-6) << topology << ", element " << k;
    }
  }
}

// Half the bytes, to the byte.
TEST_P(LossyWire, PayloadIsTwoBytesPerElement) {
  const auto schedule = schedule_for("exp", graph::Shape::single_node(2));
  support::run_world("inproc", 2, [&](support::Worker& worker) {
    MixerOptions options;
    options.count = 1001;
    options.wire = GetParam();
    Bench<float> bench(worker, *schedule, options);
    bench->start();
    EXPECT_EQ(bench->round(support::in_time()).bytes_read, 2002u);
    return std::string();
  });
}

INSTANTIATE_TEST_SUITE_P(Gossip, LossyWire, testing::Values(DType::bf16, DType::f16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace kith::gossip

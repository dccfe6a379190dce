#include <cmath>

#include <gtest/gtest.h>

#include "tests/gossip/gossip_support.h"

namespace kith::gossip {
namespace {

class LossyWire : public testing::TestWithParam<DType> {};

constexpr std::uint64_t kDraw = 5;  // of int8

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
    const double resolution = GetParam() == DType::i8     ? 1.0 / 112
                              : GetParam() == DType::bf16 ? 0x1p-8
                                                          : 0x1p-11;
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

// Half the bytes, or about a quarter: to the byte.
TEST_P(LossyWire, PayloadIsThatOfThePage) {
  const auto schedule = schedule_for("exp", graph::Shape::single_node(2));
  support::run_world("inproc", 2, [&](support::Worker& worker) {
    MixerOptions options;
    options.count = 1001;
    options.wire = GetParam();
    Bench<float> bench(worker, *schedule, options);
    bench->start();
    const std::size_t bytes = GetParam() == DType::i8 ? 8 * (128 + 4) : 2002;
    EXPECT_EQ(bench->round(support::in_time()).bytes_read, bytes);
    return std::string();
  });
}

// A mix that rounds one's own values again gives the bits of one that reads back what was published, for any
// range, and looks at no published memory of its own.
TEST_P(LossyWire, OwnRoundingGivesTheBitsOfReadingItBack) {
  const int workers = 3;
  const std::size_t count = 700;
  for (const char* topology : {"complete", "ring-static"}) {
    const auto schedule = schedule_for(topology, graph::Shape::single_node(workers));
    support::run_world("inproc", workers, [&](support::Worker& worker) {
      const SteadyClock clock;
      const auto kernels = kernels::make_cpu_kernels<float>();
      const Members members = Members::first(workers);
      const auto window = worker.transport.open({.name = "x", .bytes = kith::bytes_of(GetParam(), count)},
                                                support::in_time());
      const std::vector<double> first = first_vector(worker.rank, count);
      const std::vector<float> values(first.begin(), first.end());
      const graph::WorkerRound round = schedule->round(worker.rank, 0);

      const auto mixed = [&](std::uint64_t step, bool rounds_again) {
        const Version version{members.view, step};
        window->begin(version, support::in_time());
        const std::span<std::byte> slot = window->slot(version);
        const kernels::Source source{values.data(), DType::f32, 1};
        kernels->mix({nullptr, slot.data(), GetParam(), kDraw}, {{&source, 1}}, count);
        comm::PublishOptions publish{.bytes = slot.size()};
        address(publish, round, members, worker.rank, machines_of(worker.transport, members), count,
                GetParam());
        window->publish(version, publish);
        Own own{values.data(), DType::f32, rounds_again ? nullptr : slot.data(), GetParam()};
        own.draw = kDraw;
        const Gathered gathered =
            gather(*window, round, own, {worker.rank, &members, version, support::in_time(), &clock, false});
        for (const kernels::Source& source : gathered.mix().sources)
          EXPECT_FALSE(rounds_again && source.data == slot.data());
        // In two ranges; one's own values of the second lie elsewhere, as those of another parameter do.
        std::vector<float> to(count);
        std::vector<kernels::Source> scratch;
        const std::size_t half = 2 * block_of(DType::i8);
        const std::vector<float> rest(values.begin() + half, values.end());
        kernels->mix({to.data()}, gathered.mix_from(0, scratch), half);
        kernels->mix({to.data() + half}, gathered.mix_from(half, scratch, rest.data()), count - half);
        return to;
      };
      const std::vector<float> read_back = mixed(1, false);
      EXPECT_NE(read_back, values);
      EXPECT_EQ(mixed(2, true), read_back) << topology;
      return std::string();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Gossip, LossyWire, testing::Values(DType::bf16, DType::f16, DType::i8),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace kith::gossip

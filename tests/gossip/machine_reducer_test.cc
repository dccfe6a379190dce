// Groups that span machines, on threads that stand for workers of several machines.
#include "kith/gossip/machine_reducer.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "tests/gossip/gossip_support.h"

namespace kith::gossip {
namespace {

struct Case {
  std::string topology;
  std::string nodes;
  std::vector<int> machines;
  DType wire = DType::f32;
};

std::vector<int> as_nodes(const std::string& nodes) {
  const graph::Shape shape = graph::Shape::parse(nodes, "test");
  std::vector<int> machines;
  for (int node = 0; node < shape.nodes(); ++node)
    machines.insert(machines.end(), static_cast<std::size_t>(shape.size_of(node)), node);
  return machines;
}

struct Outcome {
  std::vector<std::vector<float>> values;  // by worker
  std::vector<double> crossing;            // bytes sent to other machines, by machine
};

Outcome mix(const Case& c, std::size_t count, int rounds) {
  const auto schedule = schedule_for(c.topology, graph::Shape::parse(c.nodes, "test"));
  std::vector<std::uint64_t> crossing(c.machines.size());
  const auto reports = support::run_threads(
      schedule->workers(),
      [&](support::Worker& worker) {
        MixerOptions options;
        options.count = count;
        options.wire = c.wire;
        Bench<float> bench(worker, *schedule, options);
        bench->start();
        for (int t = 0; t < rounds; ++t)
          EXPECT_TRUE(bench->round(support::in_time()).complete());
        crossing[static_cast<std::size_t>(worker.rank)] = comm::bytes_sent_across(worker.transport.ledger());
        return bytes_of<float>(bench->values());
      },
      c.machines);
  Outcome outcome;
  for (const std::string& report : reports)
    outcome.values.push_back(values_of<float>(report));
  outcome.crossing.resize(std::set(c.machines.begin(), c.machines.end()).size());
  for (std::size_t i = 0; i < crossing.size(); ++i)
    outcome.crossing[static_cast<std::size_t>(c.machines[i])] += static_cast<double>(crossing[i]);
  return outcome;
}

class AcrossMachines : public testing::TestWithParam<Case> {};

TEST_P(AcrossMachines, MultipliesByTheMixingMatrices) {
  const Case& c = GetParam();
  for (const std::size_t count : {std::size_t{1}, std::size_t{37}, std::size_t{5003}}) {
    const int rounds = 7;
    const auto schedule = schedule_for(c.topology, graph::Shape::parse(c.nodes, "test"));
    Eigen::MatrixXd x = first_vectors(schedule->workers(), count);
    const Eigen::RowVectorXd mean = x.colwise().mean();
    for (int t = 0; t < rounds; ++t)
      x = graph::mixing_matrix(*schedule, t) * x;
    const Outcome got = mix(c, count, rounds);
    // Of int8 several quanta of 1/112, and sums have larger ones.
    const double tolerance = c.wire == DType::f32 ? 1e-6 : c.wire == DType::bf16 ? 0.03 : 0.06;
    for (std::size_t k = 0; k < count; ++k) {
      double sum = 0;
      for (int rank = 0; rank < schedule->workers(); ++rank) {
        const float value = got.values[static_cast<std::size_t>(rank)][k];
        ASSERT_NEAR(value, x(rank, static_cast<Eigen::Index>(k)), tolerance)
            << "worker " << rank << ", " << k;
        sum += value;
      }
      ASSERT_NEAR(sum / schedule->workers(), mean(static_cast<Eigen::Index>(k)), 3e-6) << "element " << k;
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (DType wire : {DType::f32, DType::bf16, DType::i8}) {
    for (const char* nodes : {"2,2", "3,2", "1,3", "2,2,2", "4,2,1", "1,1,1", "1,1,1,1", "2,2,2,2"}) {
      for (const char* topology : {"complete", "aer", "exp"})
        all.push_back({topology, nodes, as_nodes(nodes), wire});
    }
    // Where the schedule's nodes are not the machines.
    all.push_back({"complete", "6", {0, 0, 1, 1, 1, 2}, wire});
    all.push_back({"aer", "3,3", {0, 0, 1, 1, 2, 2}, wire});
    all.push_back({"complete", "5", {0, 1, 0, 1, 0}, wire});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Gossip, AcrossMachines, testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.topology + "_on_" + test.param.nodes + "_as_";
  for (int machine : test.param.machines)
    name += std::to_string(machine);
  name += cat("_", name_of(test.param.wire));
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

// A cross step of `aer` moves one model per direction and machine; a flat ring would move (2L - 1) / L.
TEST(CrossingBytes, OneModelPerMachineInACrossStep) {
  const std::size_t count = 100'003;
  for (const char* nodes : {"2,2", "4,4", "3,5", "1,4"}) {
    // Of two nodes' `aer`, every second round crosses.
    for (const auto& [wire, bytes] :
         {std::pair{DType::f32, 4.0}, std::pair{DType::bf16, 2.0}, std::pair{DType::i8, 132.0 / 128}}) {
      const Outcome outcome = mix({"aer", nodes, as_nodes(nodes), wire}, count, 8);
      for (double crossed : outcome.crossing) {
        const double models = crossed / (4 * bytes * static_cast<double>(count));
        EXPECT_GE(models, 0.99) << nodes;
        EXPECT_LE(models, 1.01) << nodes;
      }
    }
  }
}

TEST(CrossingBytes, CompleteMovesTwoTimesNMinusOneOverN) {
  const std::size_t count = 100'003;
  const Outcome outcome = mix({"complete", "2,2,2,2", as_nodes("2,2,2,2")}, count, 5);
  // After the last round its version is published, but nobody reads it: five sums, five totals.
  for (double crossed : outcome.crossing)
    EXPECT_NEAR(crossed / (5 * 4.0 * static_cast<double>(count)), 1.5, 0.015);
}

TEST(SameBits, AllMembersOfAGroupEndWithTheSameBits) {
  for (const char* nodes : {"2,2", "4,2,1", "1,1,1"}) {
    const Outcome outcome = mix({"complete", nodes, as_nodes(nodes)}, 5003, 1);
    for (const auto& values : outcome.values)
      EXPECT_EQ(values, outcome.values.front()) << nodes;
  }
}

// The last hop copies nothing: the mean is read where its shards lie, so a round holds the two slots of its
// sums and results and no vector beside them.
TEST(MeanInParts, IsReadWhereItLies) {
  const std::size_t count = 4096;
  const int workers = 4;
  const std::vector<int> machines{0, 0, 1, 1};
  const auto schedule = schedule_for("complete", graph::Shape::parse("2,2", "test"));
  support::run_threads(
      workers,
      [&](support::Worker& worker) {
        const SteadyClock clock;
        const Members members = Members::first(workers);
        const graph::WorkerRound round = schedule->round(worker.rank, 0);
        MachineReducer<float> reducer(
            worker.transport, {"x", count, DType::f32, HopSizes::of(*schedule, machines, count), machines,
                               members.workers, support::in_time()});
        const auto window = worker.transport.open({.name = "x", .bytes = 4 * count}, support::in_time());
        const Version version{members.view, 1};
        window->begin(version, support::in_time());
        const std::vector<double> x = first_vector(worker.rank, count);
        std::copy(x.begin(), x.end(), reinterpret_cast<float*>(window->slot(version).data()));
        comm::PublishOptions publish{.bytes = 4 * count};
        address(publish, round, members, worker.rank, machines, count, DType::f32);
        window->publish(version, publish);
        const Own own{nullptr, DType::f32, window->slot(version).data(), DType::f32, 1};
        const auto work = reducer.begin(*window, round, own,
                                        {worker.rank, &members, version, support::in_time(), &clock}, count);
        reducer.run(*work);

        EXPECT_EQ(reducer.memory_bytes(), (2 + 2) * count / 2 * sizeof(float));
        EXPECT_EQ(work->mean.size(), 2u);
        std::size_t covered = 0, elsewhere = 0;
        const Eigen::RowVectorXd mean = first_vectors(workers, count).colwise().mean();
        for (const MeanPart& part : work->mean) {
          covered += part.extent.count;
          if (part.arrival) {
            ++elsewhere;
            EXPECT_EQ(part.mean.data, part.arrival->data().data());
          }
          for (std::size_t k = 0; k < part.extent.count; ++k) {
            EXPECT_NEAR(static_cast<const float*>(part.mean.data)[k],
                        mean(static_cast<Eigen::Index>(part.extent.first + k)), 1e-6);
          }
        }
        EXPECT_EQ(covered, count);
        EXPECT_EQ(elsewhere, 1u);
        return std::string();
      },
      machines);
}

}  // namespace
}  // namespace kith::gossip

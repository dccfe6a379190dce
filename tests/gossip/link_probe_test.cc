#include "kith/gossip/link_probe.h"

#include <gtest/gtest.h>

#include "tests/gossip/gossip_support.h"

namespace kith::gossip {
namespace {

LinkReport probe(const std::string& backend, int workers, const std::vector<int>& machines) {
  const SteadyClock clock;
  LinkReport report;
  const support::WorkerBody body = [&](support::Worker& worker) {
    const LinkProbeOptions options{.bytes = 1 << 16, .duration = std::chrono::milliseconds(20)};
    const LinkReport own = probe_links(worker.transport, Members::first(workers), clock, options);
    if (worker.rank == 0) report = own;
    return cat(own.inside ? own.inside->bytes_per_s : 0, " ", own.between ? own.between->bytes_per_s : 0, " ",
               own.nic_bytes_per_s.value_or(0));
  };
  const auto texts = machines.empty() ? support::run_world(backend, workers, body)
                                      : support::run_threads(workers, body, machines);
  for (const std::string& text : texts)
    EXPECT_EQ(text, texts.front()) << "everybody gets the same report";
  return report;
}

// Wide enough for any machine, and narrow enough to tell wrong units.
void expect_plausible(const LinkTimes& times) {
  EXPECT_GT(times.latency_s, 1e-9);
  EXPECT_LT(times.latency_s, 10);
  EXPECT_GT(times.bytes_per_s, 1e4);
  EXPECT_LT(times.bytes_per_s, 1e14);
}

TEST(LinkProbe, OneWorkerHasNoLinks) {
  const LinkReport report = probe("inproc", 1, {});
  EXPECT_FALSE(report.inside || report.between || report.nic_bytes_per_s);
}

TEST(LinkProbe, OneMachineHasLinksInside) {
  const LinkReport report = probe("inproc", 3, {});
  ASSERT_TRUE(report.inside);
  expect_plausible(*report.inside);
  EXPECT_FALSE(report.between || report.nic_bytes_per_s);
}

TEST(LinkProbe, MachinesHaveLinksBetweenThem) {
  const LinkReport report = probe("inproc", 5, {0, 0, 1, 1, 2});
  ASSERT_TRUE(report.inside && report.between && report.nic_bytes_per_s);
  expect_plausible(*report.inside);
  expect_plausible(*report.between);
}

TEST(LinkProbe, SingleWorkersOfMachinesHaveOneFlow) {
  const LinkReport report = probe("inproc", 2, {0, 1});
  ASSERT_TRUE(report.between);
  EXPECT_FALSE(report.inside);
  EXPECT_EQ(report.nic_bytes_per_s, report.between->bytes_per_s);
}

TEST(LinkProbe, Processes) {
  support::run_world("shm", 3, [](support::Worker& worker) {
    const SteadyClock clock;
    const LinkReport report = probe_links(worker.transport, Members::first(3), clock,
                                          {.bytes = 1 << 16, .duration = std::chrono::milliseconds(20)});
    EXPECT_TRUE(report.inside);
    EXPECT_GT(
        probe_memory(worker.transport, Members::first(3), clock, {.duration = std::chrono::milliseconds(20)}),
        1e5);
    return std::string();
  });
}

}  // namespace
}  // namespace kith::gossip

// Workers as real processes. A binary of its own, because it forks: nothing here uses torch before that.
#include <gmock/gmock.h>

#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Processes, GiveTheSameBitsAsThreads) {
  for (const char* algorithm : {"awc", "atc", "dsgt", "allreduce"}) {
    const Options options = options_for(algorithm, "accum-adamw", "exp");
    const auto processes = train_world("shm", 4, options, 20, torch::kFloat32);
    EXPECT_EQ(processes, train_world("inproc", 4, options, 20, torch::kFloat32))
        << algorithm << ", seed " << kSeed;
    EXPECT_EQ(processes[0].size(), start_values().size());
  }
}

TEST(Processes, AKilledWorkerIsReportedAndTheOthersEndAtOnce) {
  for (const char* algorithm : {"awc", "allreduce"}) {
    const auto start = SteadyClock().now();
    const auto reports = support::run_processes(
        4,
        [&](Worker& worker) -> std::string {
          Place place(worker);
          Network network = make_network();
          DecentralizedDataParallel model(network.ptr(), place.world, options_for(algorithm, "adam"));
          try {
            for (int t = 0; t < 100000; ++t) {
              if (worker.rank == 3 && t == 5) support::die(worker);
              train_steps(model, network, 1);
            }
          } catch (const Error& e) {
            return e.what();
          }
          return "never noticed";
        },
        std::chrono::seconds(40));
    for (int rank : {0, 1, 2}) {
      EXPECT_THAT(reports[static_cast<std::size_t>(rank)], AllOf(HasSubstr(" is gone"), HasSubstr("worker ")))
          << algorithm << ", worker " << rank;
    }
    EXPECT_LT(seconds(SteadyClock().now() - start), 25) << algorithm;
  }
}

}  // namespace
}  // namespace kith::train

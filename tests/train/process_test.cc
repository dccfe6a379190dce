// Workers as real processes. A binary of its own, because it forks: nothing here uses torch before that.
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Processes, GiveTheSameBitsAsThreads) {
  const std::vector<std::string> algorithms{"awc", "atc", "dsgt", "allreduce"};
  const auto train = [](const std::string& backend, const std::string& algorithm) {
    return train_world(backend, 4, options_for(algorithm, "accum-adamw", "exp"), 20, torch::kFloat32);
  };
  // All forks come first: torch's autograd does not survive one.
  std::map<std::string, std::vector<std::vector<double>>> processes;
  for (const std::string& algorithm : algorithms)
    processes[algorithm] = train("shm", algorithm);
  for (const std::string& algorithm : algorithms) {
    EXPECT_EQ(processes[algorithm], train("inproc", algorithm)) << algorithm << ", seed " << kSeed;
    EXPECT_EQ(processes[algorithm][0].size(), start_values().size());
  }
}

TEST(Processes, AKilledWorkerIsReportedAndTheOthersEndAtOnce) {
  for (const char* algorithm : {"awc", "allreduce"}) {
    const auto start = SteadyClock().now();
    const auto reports = support::run_processes(
        "shm", 4,
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

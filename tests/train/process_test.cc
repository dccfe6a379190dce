// Workers as real processes. A binary of its own, because it forks: nothing here uses torch before that.
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "kith/comm/device_backends.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Processes of one machine: over host memory, and on a GPU over its memory too where this build can.
std::vector<std::string> process_backends() {
  std::vector<std::string> names{"shm"};
  for (const comm::Backend& backend : comm::device_backends()) {
    if (test_device().is_cuda()) names.emplace_back(backend.name);
  }
  return names;
}

class Processes : public ::testing::TestWithParam<int> {};

TEST_P(Processes, GiveTheSameBitsAsThreads) {
  const int workers = GetParam();
  const std::vector<std::string> algorithms{"awc", "atc", "dsgt", "allreduce"};
  const auto train = [&](const std::string& backend, const std::string& algorithm) {
    return train_world(backend, workers, options_for(algorithm, "accum-adamw", "exp"), 20, torch::kFloat32);
  };
  // All forks come first: torch's autograd does not survive one.
  std::map<std::string, std::vector<std::vector<double>>> processes;
  for (const std::string& backend : process_backends()) {
    for (const std::string& algorithm : algorithms)
      processes[algorithm + " over " + backend] = train(backend, algorithm);
  }
  for (const std::string& algorithm : algorithms) {
    const auto threads = train("inproc", algorithm);
    EXPECT_EQ(threads[0].size(), start_values().size());
    for (const std::string& backend : process_backends()) {
      EXPECT_EQ(processes[algorithm + " over " + backend], threads)
          << algorithm << " over " << backend << ", seed " << kSeed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Processes, ::testing::Values(1, 2, 4), ::testing::PrintToStringParamName());

TEST(KilledWorker, IsReportedAndTheOthersEndAtOnce) {
  for (const std::string& backend : process_backends()) {
    for (const char* algorithm : {"awc", "allreduce"}) {
      const auto start = SteadyClock().now();
      const auto reports = support::run_processes(
          backend, 4,
          [&](Worker& worker) -> std::string {
            TestWorld here(worker);
            Network network = make_network();
            Options options = options_for(algorithm, "adam");
            options.on_lost = OnLost::fail;
            DecentralizedDataParallel model(network.ptr(), here.world, options);
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
        EXPECT_THAT(reports[static_cast<std::size_t>(rank)],
                    AllOf(HasSubstr(" is gone"), HasSubstr("worker ")))
            << algorithm << ", worker " << rank;
      }
      EXPECT_LT(seconds(SteadyClock().now() - start), 25) << algorithm;
    }
  }
}

TEST(KilledWorker, IsGoneOnWithout) {
  for (const std::string& backend : process_backends()) {
    for (const char* algorithm : {"awc", "allreduce"}) {
      const auto reports = support::run_processes(
          backend, 4,
          [&](Worker& worker) -> std::string {
            TestWorld here(worker);
            Network network = make_network();
            DecentralizedDataParallel model(network.ptr(), here.world, options_for(algorithm, "adam"));
            for (int t = 0; t < 40; ++t) {
              if (worker.rank == 3 && t == 5) support::die(worker);
              train_steps(model, network, 1);
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            model.barrier();
            return cat(model.world().size(), " workers after ", model.steps(), " steps");
          },
          std::chrono::seconds(40));
      for (int rank : {0, 1, 2})
        EXPECT_EQ(reports[static_cast<std::size_t>(rank)], "3 workers after 40 steps")
            << algorithm << " over " << backend << ", worker " << rank;
    }
  }
}

}  // namespace
}  // namespace kith::train

// Steps that fail, and ends that do not wait for a neighbour.
#include "tests/support/failure.h"

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "tests/engine/engine_support.h"
#include "tests/support/failing_windows.h"

namespace kith::engine {
namespace {

using namespace std::chrono_literals;
using support::failure_of;
using support::Processes;
using support::TempFolder;

// The second bucket of worker 0 gets no slot: the first one is published by then.
TEST(FailedStep, EveryLaterUseOfTheEngineNamesTheFirstFailure) {
  support::run_world("inproc", 2, [](support::Worker& worker) {
    support::FailingTransport transport(worker.transport, "bucket1");
    support::Worker failing{worker.rank, worker.size, transport, worker.store};
    Quadratic<float> quadratic(failing, options_for("awc", "sgd", "complete"));
    EXPECT_GT(quadratic.engine().buckets(), 1u);
    quadratic.engine().start();
    quadratic.step();
    if (worker.rank == 1) {
      quadratic.step();
      return std::string();
    }
    transport.fail();
    const std::string first = failure_of<Error>([&] { quadratic.step(); });
    EXPECT_NE(first.find("has held model/bucket1"), std::string::npos) << first;
    const std::vector<std::function<void()>> uses{
        [&] { quadratic.step(); }, [&] { quadratic.engine().state(); },
        [&] { quadratic.engine().consensus_distance(); }, [&] { quadratic.engine().gather(1); }};
    for (const auto& use : uses) {
      const std::string text = failure_of<Error>(use);
      EXPECT_NE(text.find("the engine is of no use any more: step 1 failed: " + first), std::string::npos)
          << text;
    }
    return std::string();
  });
}

struct Stopped {
  std::string algorithm;
  std::string backend;
  Memory memory = Memory::host;
};
class StoppedPeer : public ::testing::TestWithParam<Stopped> {};

std::vector<Stopped> stopped_cases() {
  std::vector<Stopped> all;
  for (const std::string& backend : support::process_backends()) {
    for (const char* algorithm : {"allreduce", "awc", "dsgt"})
      all.push_back({algorithm, backend});
    all.push_back({"allreduce", backend, Memory::copies});
    all.push_back({"awc", backend, Memory::copies});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Engine, StoppedPeer, ::testing::ValuesIn(stopped_cases()), [](const auto& test) {
  return test.param.algorithm + "_" + test.param.backend +
         (test.param.memory == Memory::copies ? "_copies" : "");
});

// Worker 1 stops, and what rounds over machines need of it has not come before; worker 0's threads wait for
// it, for longer than any test. A "routed" worker 1 is on a machine of its own.
TEST_P(StoppedPeer, EngineAndTransportEndWithinASecondEach) {
  const TempFolder folder;
  comm::FileStore store(folder.path());
  EngineOptions options = options_for(GetParam().algorithm, "sgd", "complete");
  options.patience = 11min;
  Clock::Time began{};  // in each process
  Processes processes(3, [&](int rank) {
    support::run_process(GetParam().backend, rank, 3, folder.path(), [&](support::Worker& own) {
      support::FailingTransport transport(own.transport, "/sum");
      if (rank == 1) transport.fail();
      support::Worker worker{rank, 3, transport, own.store};
      const std::vector<std::size_t> sizes{7, 1, 40, 16};
      auto quadratic = std::make_unique<Quadratic<float>>(worker, options, sizes, GetParam().memory);
      quadratic->engine().start();
      worker.store.set(cat("ready/", rank), "");
      EXPECT_TRUE(worker.store.wait("stopped", support::in_time()));
      quadratic->backward();
      // All-reduce begins here; the others have begun to average the first version.
      for (std::size_t i = 0; i < quadratic->inputs().size(); ++i)
        quadratic->engine().gradient_ready(i, quadratic->inputs()[i]);
      std::this_thread::sleep_for(20ms);  // right also when nobody waits yet
      began = SteadyClock().now();
      quadratic.reset();
      EXPECT_LT(SteadyClock().now() - began, 1s);
      began = SteadyClock().now();
      return std::string();
    });
    EXPECT_LT(SteadyClock().now() - began, 1s);
    comm::FileStore(folder.path()).set(cat("ended/", rank), "");
    return std::string();
  });
  for (int rank : {0, 1, 2})
    ASSERT_TRUE(store.wait(cat("ready/", rank), support::in_time()));
  processes.send(1, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(processes.pid(1), &status, WUNTRACED), processes.pid(1));
  store.set("stopped", "");
  for (int rank : {0, 2})
    EXPECT_TRUE(store.wait(cat("ended/", rank), support::in_time()));
  processes.send(1, SIGKILL);
  const auto endings = processes.join(30s);
  EXPECT_TRUE(endings[0].good() && endings[2].good()) << endings[0].report << endings[2].report;
}

}  // namespace
}  // namespace kith::engine

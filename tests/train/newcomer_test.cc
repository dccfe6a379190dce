// Wrapped models whose workers come and leave.
#include <thread>

#include <gmock/gmock.h>

#include "kith/comm/extensible.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;

constexpr int kFounders = 3;

// The place of a worker in a world that begins with three, and that others may join.
struct ElasticWorld {
  ElasticWorld(Worker& worker, const std::shared_ptr<comm::InprocGenerations>& shared)
      : make(comm::generations_of_threads(shared, worker.id())),
        transport(worker.rank < kFounders
                      ? make("first", Members::first(kFounders).workers)
                      : comm::InprocWorld::create(std::vector{worker.id()})->join(worker.id()),
                  make),
        here(worker) {
    here.world.transport = &transport;
    here.world.extensible = &transport;
    here.world.members = {0, transport.workers()};
    here.world.newcomer = worker.rank >= kFounders;
  }
  comm::MakeGeneration make;
  comm::ExtensibleTransport transport;
  TestWorld here;
};

// A newcomer gets the model, the moments, the rates and the position of the data, and one leaves on purpose.
TEST(Newcomer, TrainsAlongAndAnotherLeaves) {
  for (const char* algorithm : {"awc", "allreduce"}) {
    const auto shared = std::make_shared<comm::InprocGenerations>();
    const auto reports = support::run_threads(kFounders + 1, [&](Worker& worker) -> std::string {
      if (worker.rank == kFounders) worker.store.wait("ten steps", support::in_time());
      ElasticWorld elastic(worker, shared);
      Network network = make_network();
      DecentralizedDataParallel model(network.ptr(), elastic.here.world,
                                      options_for(algorithm, "adam", "exp"));
      model.give_position([&] { return std::vector<std::byte>(5, std::byte{7}); });
      EXPECT_EQ(model.joined(), worker.rank == kFounders) << algorithm;
      const auto step = [&] {
        backward(model, network);
        model.step();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      };
      if (model.joined()) {
        EXPECT_GE(model.steps(), 10) << algorithm;
        EXPECT_EQ(model.resumed()->position, std::vector<std::byte>(5, std::byte{7})) << algorithm;
        EXPECT_EQ(model.resumed()->workers, kFounders) << algorithm;
      } else {
        model.parameter_groups().front().lr = 0.0123;
        while (model.steps() < 10)
          step();
      }
      if (worker.rank == 0) worker.store.set("ten steps", "");
      const Deadline deadline = support::in_time();
      while (model.world().size() < kFounders + 1) {
        if (SteadyClock().now() > deadline) return "nobody came";
        step();
      }
      EXPECT_EQ(model.parameter_groups().front().lr, 0.0123) << algorithm;
      const std::int64_t began = model.engine().view_began();
      while (model.steps() < began + 5)
        step();
      if (worker.rank == 1) {
        model.finish();
        return "left";
      }
      while (model.world().size() > kFounders) {
        if (SteadyClock().now() > deadline) return "nobody left";
        step();
      }
      const std::int64_t until = model.engine().view_began() + 5;
      while (model.steps() < until)
        step();
      EXPECT_EQ(model.engine().left(), std::vector<WorkerId>{WorkerId{1}}) << algorithm;
      double sum = 0;
      {
        const auto average = model.average();
        for (const torch::Tensor& parameter : network->parameters())
          sum += parameter.detach().to(torch::kFloat64).sum().item<double>();
      }
      return cat(model.world().size(), " workers, ", model.steps(), " steps, ", sum);
    });
    EXPECT_THAT(reports[0], ::testing::StartsWith("3 workers, ")) << algorithm;
    EXPECT_EQ(reports[1], "left") << algorithm;
    EXPECT_EQ(reports[2], reports[0]) << algorithm;
    EXPECT_EQ(reports[3], reports[0]) << algorithm;
  }
}

}  // namespace
}  // namespace kith::train

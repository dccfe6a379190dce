// A program's own view of kith: one header, one call, one owner.
#include <gmock/gmock.h>

#include "kith/kith.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KeptLog final : public Log {
 public:
  void write(LogLevel, std::string_view line) override { text += line; }
  std::string text;
};

struct Seen {
  std::string nodes, log;
};

// What worker 0's topology sees of four workers on these machines.
Seen seen_on(const std::vector<int>& machines, const Options& options) {
  Seen seen;
  support::run_threads(
      4,
      [&](Worker& worker) {
        TestWorld here(worker);
        KeptLog log;
        here.world.log = &log;
        Network network = make_network();
        DecentralizedDataParallel model(network.ptr(), here.world, options);
        train_steps(model, network, 2);
        if (worker.rank == 0) seen = {model.engine().options().schedule.shape.text(), log.text};
        return std::string();
      },
      machines);
  return seen;
}

TEST(Nodes, AreTheMachinesUnlessGiven) {
  const Seen pairs = seen_on({0, 0, 1, 1}, {.topology = "aer"});
  EXPECT_EQ(pairs.nodes, "2,2");
  EXPECT_THAT(pairs.log, IsEmpty());
  EXPECT_EQ(seen_on({0, 1, 1, 1}, {.topology = "aer"}).nodes, "1,3");
  EXPECT_EQ(seen_on({}, {.topology = "aer"}).nodes, "4");
  EXPECT_EQ(seen_on({0, 0, 1, 1}, {.topology = "aer", .nodes = "4x1"}).nodes, "1,1,1,1");
}

TEST(Nodes, OfWorkersThatDoNotFollowEachOtherAreOneAndTheLogSaysSo) {
  const Seen dealt = seen_on({0, 1, 0, 1}, {.topology = "aer"});
  EXPECT_EQ(dealt.nodes, "4");
  EXPECT_THAT(dealt.log, HasSubstr("do not follow each other"));
}

TEST(World, OfAProcessThatNobodyStartedIsOneWorker) {
  const kith::World world = kith::join();
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.local_rank(), 0);
  Network network = make_network();
  const std::vector<double> before = flatten(*network);
  kith::DecentralizedDataParallel model(network.ptr(), world, {.topology = "aer", .lr = 1e-3});
  train_steps(model, network, 3);
  EXPECT_EQ(model.steps(), 3);
  EXPECT_NE(flatten(*network), before);
}

TEST(World, OfThreadsTrainsWithTheSameWrapper) {
  torch::set_num_threads(1);
  std::vector<std::vector<double>> models(3);
  kith::run_threads(3, [&](const kith::World& world) {
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(world.local_rank(), world.rank());
    Network network = make_network();
    kith::DecentralizedDataParallel model(network.ptr(), world, {.topology = "complete"});
    train_steps(model, network, 4);
    const auto mean = model.average();
    models[static_cast<std::size_t>(world.rank())] = flatten(*network);
  });
  EXPECT_EQ(models[0], models[1]);
  EXPECT_EQ(models[0], models[2]);
  EXPECT_NE(models[0], start_values());
}

// The world may be moved while nothing is built on it: what it owns stays where it is.
TEST(World, KeepsItsClockAndLogWhenItMoves) {
  kith::World first = kith::join();
  const Clock* const clock = &first.clock();
  Log* const log = &first.log();
  const kith::World second = std::move(first);
  EXPECT_EQ(&second.clock(), clock);
  EXPECT_EQ(&second.log(), log);
}

}  // namespace
}  // namespace kith::train

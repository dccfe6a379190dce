#include "kith/gossip/group_plan.h"

#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kith::gossip {
namespace {

struct World {
  std::vector<int> machines;  // by rank
  std::size_t count;
};

std::vector<int> machines(std::initializer_list<int> workers) {
  std::vector<int> all;
  int machine = 0;
  for (int n : workers)
    all.insert(all.end(), static_cast<std::size_t>(n), machine++);
  return all;
}

std::vector<GroupPlan> plans(const World& world) {
  std::vector<Rank> group(world.machines.size());
  std::iota(group.begin(), group.end(), 0);
  std::vector<GroupPlan> all;
  for (Rank self : group)
    all.emplace_back(group, world.machines, self, world.count);
  return all;
}

class EveryWorld : public testing::TestWithParam<World> {};

std::vector<std::size_t> elements(const std::vector<Extent>& extents) {
  std::vector<std::size_t> all;
  for (const Extent& extent : extents) {
    for (std::size_t k = 0; k < extent.count; ++k)
      all.push_back(extent.first + k);
  }
  return all;
}

// What one side plans to send is what the other plans to receive, element by element.
void expect_pairs(const std::vector<GroupPlan>& all, const std::vector<Message>& (GroupPlan::*out)() const,
                  const std::vector<Message>& (GroupPlan::*in)() const) {
  std::map<std::pair<Rank, Rank>, std::vector<std::size_t>> sent, received;
  for (std::size_t self = 0; self < all.size(); ++self) {
    for (const Message& message : (all[self].*out)()) {
      const auto [place, fresh] =
          sent.try_emplace({static_cast<Rank>(self), message.peer}, elements(message.extents));
      EXPECT_TRUE(fresh) << "one message per pair";
      EXPECT_EQ(place->second.size(), message.count);
    }
    for (const Message& message : (all[self].*in)())
      received[{message.peer, static_cast<Rank>(self)}] = elements(message.extents);
  }
  EXPECT_EQ(sent, received);
}

TEST_P(EveryWorld, BothSidesPlanTheSameMessages) {
  const auto all = plans(GetParam());
  expect_pairs(all, &GroupPlan::sums_out, &GroupPlan::sums_in);
  expect_pairs(all, &GroupPlan::totals_out, &GroupPlan::totals_in);
}

TEST_P(EveryWorld, EveryElementIsOwnedOnceOrOncePerMachine) {
  const auto all = plans(GetParam());
  std::vector<int> owners(GetParam().count);
  for (const GroupPlan& plan : all) {
    for (const Piece& piece : plan.owned()) {
      for (std::size_t k = 0; k < piece.extent.count; ++k)
        ++owners[piece.extent.first + k];
    }
  }
  EXPECT_THAT(owners, testing::Each(all.front().direct() ? 2 : 1));
}

// 2 (N - 1) / N vectors per machine, whatever the number of workers on it.
TEST_P(EveryWorld, EveryMachineSendsNoMoreThanItMust) {
  const auto all = plans(GetParam());
  const std::size_t n = all.front().machines().size();
  std::map<int, std::size_t> sent;
  for (std::size_t self = 0; self < all.size(); ++self) {
    for (const auto& messages : {all[self].sums_out(), all[self].totals_out()}) {
      for (const Message& message : messages) {
        EXPECT_NE(GetParam().machines[static_cast<std::size_t>(message.peer)], GetParam().machines[self]);
        sent[GetParam().machines[self]] += message.count;
      }
    }
  }
  const double vectors = 2.0 * static_cast<double>(n - 1) / static_cast<double>(n);
  for (const auto& [machine, count] : sent) {
    // Parts begin at multiples of 16 elements: the first ones are a little larger.
    EXPECT_LE(static_cast<double>(count), vectors * static_cast<double>(GetParam().count) +
                                              16.0 * static_cast<double>(2 * n * all.size()))
        << "machine " << machine;
  }
}

INSTANTIATE_TEST_SUITE_P(Gossip, EveryWorld,
                         testing::Values(World{machines({2, 2}), 1000}, World{machines({3, 2}), 100'000},
                                         World{machines({1, 4}), 4099}, World{machines({1, 1, 1}), 50'000},
                                         World{machines({2, 2, 2, 2}), 99'999},
                                         World{machines({4, 2, 1}), 70'001}, World{machines({3, 3}), 1},
                                         World{machines({5, 3, 2, 4}), 17},
                                         World{{0, 1, 0, 2, 1, 0}, 12'345}),
                         [](const auto& test) {
                           std::string name = "on";
                           for (int machine : test.param.machines)
                             name += std::to_string(machine);
                           return name + "_of_" + std::to_string(test.param.count);
                         });

TEST(GroupPlan, AppliesToGroupsThatSpanMachines) {
  graph::WorkerRound round;
  round.group = {0, 1, 2, 3};
  EXPECT_TRUE(GroupPlan::applies(round, machines({2, 2})));
  EXPECT_FALSE(GroupPlan::applies(round, machines({4})));
  round.group = {1, 2};
  EXPECT_FALSE(GroupPlan::applies(round, machines({2, 2}))) << "two single workers read each other";
  round.form = graph::Form::neighbours;
  EXPECT_FALSE(GroupPlan::applies(round, machines({2, 2})));
}

}  // namespace
}  // namespace kith::gossip

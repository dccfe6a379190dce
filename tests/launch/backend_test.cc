#include "kith/launch/backend.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace kith::launch {
namespace {

std::string choice(const BackendQuestion& question, const std::vector<std::string>& available) {
  return choose_backend(question, [&](std::string_view backend) {
    return std::ranges::find(available, backend) != available.end();
  });
}

const std::vector<std::string> kAll{"inproc", "shm", "routed", "cuda_ipc"};
const std::vector<std::string> kNoGpu{"inproc", "shm", "routed"};
const std::vector<std::string> kLeast{"inproc", "shm"};

TEST(BackendChoice, ModelsOnGpusOfOneMachineGetWindowsInTheirMemory) {
  EXPECT_EQ(choice({.workers = 4, .one_machine = true, .on_gpu = true}, kAll), "cuda_ipc");
  EXPECT_EQ(choice({.workers = 1, .on_gpu = true}, kAll), "cuda_ipc");
}

TEST(BackendChoice, OthersDoNot) {
  EXPECT_EQ(choice({.workers = 4, .one_machine = true}, kAll), "shm");
  EXPECT_EQ(choice({.workers = 1}, kAll), "inproc");
  EXPECT_EQ(choice({.workers = 4, .on_gpu = true}, kAll), "routed") << "perhaps on several machines";
  EXPECT_EQ(choice({.workers = 4, .one_machine = true, .on_gpu = true}, kNoGpu), "shm");
  EXPECT_EQ(choice({.workers = 1, .on_gpu = true}, kNoGpu), "inproc");
}

TEST(BackendChoice, MachinesAreReachedOverTheNetworkWhereThisBuildCan) {
  EXPECT_EQ(choice({.workers = 4}, kNoGpu), "routed");
  EXPECT_EQ(choice({.workers = 4}, kLeast), "shm");
}

TEST(BackendChoice, WhoeverAsksDecides) {
  EXPECT_EQ(choice({.asked = "shm", .workers = 4, .one_machine = true, .on_gpu = true}, kAll), "shm");
  EXPECT_EQ(choice({.asked = "cuda_ipc", .workers = 4}, kLeast), "cuda_ipc") << "whose absence is told later";
}

TEST(BackendChoice, KnowsWhatThisBuildHas) {
  EXPECT_TRUE(backend_available("inproc"));
  EXPECT_FALSE(backend_available("pigeons"));
}

}  // namespace
}  // namespace kith::launch

#include "kith/kernels/cpu/thread_pool.h"

#include <vector>

#include <gtest/gtest.h>

namespace kith::kernels {
namespace {

TEST(ThreadPoolTest, EachTaskRunsOncePerCall) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.threads(), static_cast<std::size_t>(threads));
    std::vector<int> calls(pool.threads(), 0);
    for (int round = 0; round < 300; ++round)
      pool.run([&](std::size_t i) { ++calls[i]; });
    EXPECT_EQ(calls, std::vector<int>(pool.threads(), 300));
  }
}

TEST(ThreadPoolTest, TheFirstTaskIsTheCallers) {
  ThreadPool pool(3);
  std::vector<std::thread::id> ran(3);
  pool.run([&](std::size_t i) { ran[i] = std::this_thread::get_id(); });
  EXPECT_EQ(ran[0], std::this_thread::get_id());
  EXPECT_NE(ran[1], ran[0]);
  EXPECT_NE(ran[2], ran[1]);
}

TEST(ThreadPoolTest, AnIdlePoolEndsAtOnce) {
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(ThreadPool(4).threads(), 4U);
}

}  // namespace
}  // namespace kith::kernels

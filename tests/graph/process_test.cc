#include <array>
#include <cstdio>
#include <sstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/graph/digest.h"
#include "tests/graph/worlds.h"

namespace kith::graph {
namespace {

TEST(Process, AnotherProcessComputesTheSameSchedules) {
  FILE* pipe = ::popen(SCHEDULE_DIGEST, "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    output.append(buffer, got);
  ASSERT_EQ(::pclose(pipe), 0);

  std::istringstream lines(output);
  std::string name, shape;
  std::uint64_t digest = 0;
  std::size_t compared = 0;
  for (; lines >> name >> shape >> digest; ++compared) {
    EXPECT_EQ(digest, digest_of(*make(name, Shape::parse(shape, "digest")))) << name << " on " << shape;
  }
  EXPECT_EQ(compared, built_in_names().size() * all_shapes().size());
}

TEST(Process, ThreadsMayShareASchedule) {
  for (const std::string& name : built_in_names()) {
    const auto schedule = make(name, Shape::parse("4,2,1", "test"));
    std::array<std::uint64_t, 3> digests{};
    {
      std::vector<std::jthread> threads;
      for (std::uint64_t& digest : digests)
        threads.emplace_back([&] { digest = digest_of(*schedule); });
    }
    for (std::uint64_t digest : digests)
      EXPECT_EQ(digest, digest_of(*schedule)) << name;
  }
}

TEST(Process, SeedsMatterWhereTopologiesDraw) {
  const Shape shape = Shape::single_node(24);
  for (const char* name : {"matching", "erdos-renyi", "random-directed"}) {
    EXPECT_EQ(digest_of(*make(name, shape, 1)), digest_of(*make(name, shape, 1))) << name;
    EXPECT_NE(digest_of(*make(name, shape, 1)), digest_of(*make(name, shape, 2))) << name;
  }
}

}  // namespace
}  // namespace kith::graph

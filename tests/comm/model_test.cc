// The protocol's state machine under thousands of seeded interleavings, in virtual time and on one thread.
// A failure prints its seed; KITH_SEED=N runs that one alone.
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/comm/latest_model.h"
#include "tests/comm/scheduled_model.h"

namespace kith::comm::model {
namespace {

constexpr std::uint64_t kSeedsPerPart = 1000;

template <class Model>
void run_seeds(std::uint64_t part) {
  std::uint64_t first = part * kSeedsPerPart;
  std::uint64_t count = kSeedsPerPart;
  if (const char* seed = std::getenv("KITH_SEED")) {
    first = std::strtoull(seed, nullptr, 10);
    count = 1;
  }
  long reads = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    try {
      reads += Model(seed).run();
    } catch (const std::exception& e) {
      FAIL() << "seed " << seed << " (KITH_SEED=" << seed << "): " << e.what();
    }
  }
  EXPECT_GE(reads, static_cast<long>(10 * (count - 1))) << "the model hardly reads anything";
}

class Model : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Part, Model, ::testing::Range<std::uint64_t>(0, 4));

TEST_P(Model, ScheduledModeHasNoDeadlockAndNoTornRead) {
  run_seeds<ScheduledModel>(GetParam());
}
TEST_P(Model, LatestModeHasNoDeadlockAndNoTornRead) {
  run_seeds<LatestModel>(GetParam());
}

}  // namespace
}  // namespace kith::comm::model

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/comm/ucx/settings.h"
#include "kith/comm/ucx/worker.h"

namespace kith::comm::ucx {
namespace {

TEST(UcxWorker, SaysWhatMemoryItMoves) {
  const Worker worker(settings_for("lo"), [](std::span<const std::byte>, Delivery&) {});
  EXPECT_THAT(worker.memory_types(), testing::Contains("host"));
  EXPECT_THAT(worker.memory_types(), testing::Each(testing::Not("")));
}

}  // namespace
}  // namespace kith::comm::ucx

// Each test computes with one thread: tests run side by side.

#include <gtest/gtest.h>
#include <torch/utils.h>

namespace {

class OneThread final : public ::testing::Environment {
 public:
  void SetUp() override { torch::set_num_threads(1); }
};

const ::testing::Environment* const kOneThread = ::testing::AddGlobalTestEnvironment(new OneThread);

}  // namespace

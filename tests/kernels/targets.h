#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::kernels {

// Every instruction set that this build has loops for and this machine runs.
std::vector<std::string> all_targets();

// Until `target` is forced again, kernels made by make_cpu_kernels() use it; "" gives the choice back to the
// machine.
void force_target(const std::string& target);

// A test that runs once per target.
class EachTarget : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    force_target(GetParam());
    ASSERT_EQ(cpu_target(), GetParam());
  }
  void TearDown() override { force_target(""); }
};

inline std::string target_name(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace kith::kernels

#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "kith/base/text.h"

namespace kith::kernels {

// Tests with inputs that are new in every run. A failure prints the seed; KITH_SEED=N runs with that one.
class FreshSeed : public testing::Test {
 protected:
  const std::uint64_t seed_ = draw();

 private:
  static std::uint64_t draw() {
    if (const char* const given = std::getenv("KITH_SEED")) return std::stoull(given);
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }

  const testing::ScopedTrace trace_{__FILE__, __LINE__, cat("KITH_SEED=", seed_)};
};

}  // namespace kith::kernels

#include "cli/blas.h"

#include <gtest/gtest.h>

namespace kith::cli {
namespace {

TEST(BlasKernels, AreReplacedWhereTheyAreOlderThanTheProcessor) {
  EXPECT_EQ(better_blas_kernels("Prescott", "AVX3"), "SkylakeX");
  EXPECT_EQ(better_blas_kernels("Zen", "AVX3_DL"), "SkylakeX");
  EXPECT_EQ(better_blas_kernels("Barcelona", "AVX2"), "Haswell");
}

TEST(BlasKernels, StayWhereTheyFit) {
  EXPECT_EQ(better_blas_kernels("Cooperlake", "AVX3"), "");
  EXPECT_EQ(better_blas_kernels("SkylakeX", "AVX2"), "");
  EXPECT_EQ(better_blas_kernels("Zen", "AVX2"), "");
  EXPECT_EQ(better_blas_kernels("Prescott", "SSE4"), "");
  EXPECT_EQ(better_blas_kernels("NeoverseN1", "NEON"), "");
  EXPECT_EQ(better_blas_kernels("", "AVX3"), "");  // another BLAS
}

}  // namespace
}  // namespace kith::cli

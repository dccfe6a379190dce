#include <limits>

#include "kith/base/rng.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/kernels/reference/reference_kernels.h"
#include "tests/kernels/targets.h"

namespace kith::kernels {
namespace {

class NormsTest : public EachTarget {};

template <class T>
std::vector<T> normals(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<T> made(count);
  for (T& x : made)
    x = static_cast<T>(rng.normal());
  return made;
}

template <class T>
void expect_norms(std::size_t count) {
  const auto a = normals<T>(count, 1);
  const auto b = normals<T>(count, 2);
  const Norms want = make_reference_kernels<T>()->norms(a.data(), b.data(), count);
  const Norms one = make_cpu_kernels<T>()->norms(a.data(), b.data(), count);
  EXPECT_NEAR(one.squared_norm, want.squared_norm, 1e-12 * want.squared_norm) << count;
  EXPECT_NEAR(one.squared_distance, want.squared_distance, 1e-12 * want.squared_distance) << count;
  for (const int threads : {2, 3, 8}) {
    const Norms many = make_cpu_kernels<T>({.threads = threads})->norms(a.data(), b.data(), count);
    EXPECT_EQ(many.squared_norm, one.squared_norm) << count << " with " << threads << " threads";
    EXPECT_EQ(many.squared_distance, one.squared_distance) << count << " with " << threads << " threads";
  }
  const Norms alone = make_cpu_kernels<T>()->norms(a.data(), nullptr, count);
  EXPECT_EQ(alone.squared_norm, one.squared_norm);
  EXPECT_EQ(alone.squared_distance, 0);
}

TEST_P(NormsTest, AgreeWithTheReferenceForAnyThreadCount) {
  for (const std::size_t count : {0, 1, 2, 3, 17, 4095, 4096, 4097, 200'003}) {
    expect_norms<float>(count);
    expect_norms<double>(count);
  }
}

TEST_P(NormsTest, SumFloatsInDouble) {
  constexpr std::size_t kCount = 5000;
  std::vector<float> a(kCount, 1e30F);
  const double want = kCount * static_cast<double>(1e30F) * static_cast<double>(1e30F);
  EXPECT_NEAR(make_cpu_kernels<float>()->norms(a.data(), nullptr, kCount).squared_norm, want, 1e-12 * want);
  a[4321] = std::numeric_limits<float>::quiet_NaN();
  const Norms norms = make_cpu_kernels<float>()->norms(a.data(), nullptr, kCount);
  EXPECT_NE(norms.squared_norm, norms.squared_norm);
}

INSTANTIATE_TEST_SUITE_P(Targets, NormsTest, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace kith::kernels

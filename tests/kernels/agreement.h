#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kith/kernels/int8.h"
#include "kith/kernels/reference/reference_kernels.h"
#include "tests/kernels/problem.h"

namespace kith::kernels {

template <class T>
constexpr double kTolerance = sizeof(T) == 4 ? 2e-6 : 1e-14;

// `terms`: of the sums behind the values. They are of order 1 while few terms are added, and so is the
// tolerance; long sums are rounded at the size of their partial sums, whatever remains of it in the end.
template <class T>
void expect_near(const std::vector<T>& got, const std::vector<T>& want, std::size_t terms,
                 const std::string& what) {
  const double size = std::max(1.0, static_cast<double>(terms) / 16);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double scale = std::max(size, std::fabs(static_cast<double>(want[i])));
    ASSERT_NEAR(got[i], want[i], kTolerance<T> * scale) << what << " element " << i;
  }
}

// The encoded copy is what the reference makes of the values beside it.
template <class T>
void expect_encoding_of_values(const Problem<T>& problem) {
  const std::size_t count = problem.shape().count;
  const std::vector<T> values = problem.values();
  if (*problem.shape().encoded == dtype_of<T>()) {
    EXPECT_EQ(problem.copy(), values);
    return;
  }
  const auto reference = make_reference_kernels<T>();
  const Source source{values.data(), dtype_of<T>(), 1};
  if (*problem.shape().encoded == DType::i8) {
    std::vector<std::byte> blocks(bytes_of(DType::i8, count));
    reference->mix({nullptr, blocks.data(), DType::i8, kEncodedDraw}, {{&source, 1}}, count);
    EXPECT_EQ(problem.encoded_blocks(), blocks);
    return;
  }
  std::vector<std::uint16_t> words(count);
  reference->mix({nullptr, words.data(), *problem.shape().encoded}, {{&source, 1}}, count);
  EXPECT_EQ(problem.encoded(), words);
}

// Every step on `shape` by the reference and by `kernels`, whose memory is `memory`.
template <class T>
void expect_agreement(Kernels<T>& kernels, const Shape& shape, Memory& memory) {
  const auto reference = make_reference_kernels<T>();
  for (const Step& step : all_steps()) {
    SCOPED_TRACE(step.name + " " + describe(shape));
    Problem<T> want(shape);
    Problem<T> got(shape);
    want.run(*reference, step);
    got.run(kernels, step, memory);
    expect_near(got.values(), want.values(), shape.sources.size(), "values");
    for (std::size_t k = 0; k < 3; ++k)
      expect_near(got.state(k), want.state(k), shape.sources.size(), "state");
    if (shape.encoded) expect_encoding_of_values(got);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace kith::kernels

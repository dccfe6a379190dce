// Causal self-attention of one head. Included once per target (no #pragma once).

#include <algorithm>
#include <cmath>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kith/kernels/cpu/model_loops.h"

#if defined(KITH_KERNELS_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KITH_KERNELS_ATTENTION_INL_H
#undef KITH_KERNELS_ATTENTION_INL_H
#else
#define KITH_KERNELS_ATTENTION_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace kith::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<float, kHeadStep>;  // vectors that divide a row

// A matrix by its strides: element (i, j) is data[i * row + j * column].
struct Strided {
  const float* data = nullptr;
  std::size_t row = 0;
  std::size_t column = 1;
};

struct Rows {  // each one contiguous
  float* data = nullptr;
  std::size_t stride = 0;
};

// Four rows of a product stay in registers. The last rows repeat where there are fewer than four.
struct FourRows {
  std::size_t row[4];
  FourRows(std::size_t first, std::size_t rows) {
    for (std::size_t r = 0; r < 4; ++r)
      row[r] = std::min(first + r, rows - 1);
  }
};

// to(row, first...) = sum over k from `begin` to `end` of a(row, k) b(k, first...), two vectors wide.
HWY_INLINE void two_vectors(const FourRows& of, Strided a, Strided b, std::size_t begin, std::size_t end,
                            Rows to, std::size_t first) {
  const Lanes d;
  const std::size_t second = first + hn::Lanes(d);
  const float *a0 = a.data + of.row[0] * a.row, *a1 = a.data + of.row[1] * a.row,
              *a2 = a.data + of.row[2] * a.row, *a3 = a.data + of.row[3] * a.row;
  auto s00 = hn::Zero(d), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
  for (std::size_t k = begin; k < end; ++k) {
    const auto b0 = hn::LoadU(d, b.data + k * b.row + first);
    const auto b1 = hn::LoadU(d, b.data + k * b.row + second);
    const std::size_t at = k * a.column;
    const auto x0 = hn::Set(d, a0[at]), x1 = hn::Set(d, a1[at]), x2 = hn::Set(d, a2[at]),
               x3 = hn::Set(d, a3[at]);
    s00 = hn::MulAdd(x0, b0, s00);
    s01 = hn::MulAdd(x0, b1, s01);
    s10 = hn::MulAdd(x1, b0, s10);
    s11 = hn::MulAdd(x1, b1, s11);
    s20 = hn::MulAdd(x2, b0, s20);
    s21 = hn::MulAdd(x2, b1, s21);
    s30 = hn::MulAdd(x3, b0, s30);
    s31 = hn::MulAdd(x3, b1, s31);
  }
  const auto put = [&](std::size_t r, auto left, auto right) {
    hn::StoreU(left, d, to.data + of.row[r] * to.stride + first);
    hn::StoreU(right, d, to.data + of.row[r] * to.stride + second);
  };
  put(0, s00, s01);
  put(1, s10, s11);
  put(2, s20, s21);
  put(3, s30, s31);
}

// The same, one vector wide.
HWY_INLINE void one_vector(const FourRows& of, Strided a, Strided b, std::size_t begin, std::size_t end,
                           Rows to, std::size_t first) {
  const Lanes d;
  const float *a0 = a.data + of.row[0] * a.row, *a1 = a.data + of.row[1] * a.row,
              *a2 = a.data + of.row[2] * a.row, *a3 = a.data + of.row[3] * a.row;
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (std::size_t k = begin; k < end; ++k) {
    const auto b0 = hn::LoadU(d, b.data + k * b.row + first);
    const std::size_t at = k * a.column;
    s0 = hn::MulAdd(hn::Set(d, a0[at]), b0, s0);
    s1 = hn::MulAdd(hn::Set(d, a1[at]), b0, s1);
    s2 = hn::MulAdd(hn::Set(d, a2[at]), b0, s2);
    s3 = hn::MulAdd(hn::Set(d, a3[at]), b0, s3);
  }
  hn::StoreU(s0, d, to.data + of.row[0] * to.stride + first);
  hn::StoreU(s1, d, to.data + of.row[1] * to.stride + first);
  hn::StoreU(s2, d, to.data + of.row[2] * to.stride + first);
  hn::StoreU(s3, d, to.data + of.row[3] * to.stride + first);
}

HWY_INLINE void columns_of(const FourRows& of, Strided a, Strided b, std::size_t begin, std::size_t end,
                           Rows to, std::size_t columns) {
  const std::size_t lanes = hn::Lanes(Lanes());
  std::size_t first = 0;
  for (; first + 2 * lanes <= columns; first += 2 * lanes)
    two_vectors(of, a, b, begin, end, to, first);
  if (first < columns) one_vector(of, a, b, begin, end, to, first);
}

// to = a b' for positions a and b, as far as a position sees, and on to the end of the vector. `b_turned`
// has a row for each of the `width` numbers.
inline void scores_of(const AttentionHead& head, Strided a, const float* b_turned, Rows to) {
  const std::size_t lanes = hn::Lanes(Lanes());
  for (std::size_t i = 0; i < head.length; i += 4) {
    const std::size_t seen = std::min(i + 4, head.length);
    columns_of({i, head.length}, a, {b_turned, to.stride}, 0, head.width, to,
               (seen + lanes - 1) / lanes * lanes);
  }
}

// to = weights b: each position takes from those it sees.
inline void gather(const AttentionHead& head, const float* weights, Strided b, Rows to) {
  const std::size_t row = attention_row(head.length);
  for (std::size_t i = 0; i < head.length; i += 4)
    columns_of({i, head.length}, {weights, row}, b, 0, std::min(i + 4, head.length), to, head.width);
}

// to = weights' b: each position takes from those that see it.
inline void gather_back(const AttentionHead& head, const float* weights, Strided b, Rows to) {
  const std::size_t row = attention_row(head.length);
  for (std::size_t i = 0; i < head.length; i += 4)
    columns_of({i, head.length}, {weights, 1, row}, b, i, head.length, to, head.width);
}

inline void turn(const AttentionHead& head, const float* from, float* to) {
  const std::size_t row = attention_row(head.length);
  for (std::size_t j = 0; j < head.width; ++j) {
    for (std::size_t i = 0; i < head.length; ++i)
      to[j * row + i] = from[i * head.stride + j];
    std::fill(to + j * row + head.length, to + (j + 1) * row, 0.0F);
  }
}

// The first `seen` scores become weights, the others nothing.
inline void softmax_row(float* scores, std::size_t seen, std::size_t row, float scale) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t end = (seen + lanes - 1) / lanes * lanes;
  std::fill(scores + seen, scores + end, -1e30F);
  auto most = hn::LoadU(d, scores);
  for (std::size_t j = lanes; j < end; j += lanes)
    most = hn::Max(most, hn::LoadU(d, scores + j));
  const auto top = hn::Mul(hn::MaxOfLanes(d, most), hn::Set(d, scale));
  auto sum = hn::Zero(d);
  for (std::size_t j = 0; j < end; j += lanes) {
    const auto x = hn::MulSub(hn::LoadU(d, scores + j), hn::Set(d, scale), top);
    // What is no number stays none; Exp would make it nothing.
    const auto e = hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
    sum = hn::Add(sum, e);
    hn::StoreU(e, d, scores + j);
  }
  const auto share = hn::Div(hn::Set(d, 1.0F), hn::SumOfLanes(d, sum));
  for (std::size_t j = 0; j < end; j += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, scores + j), share), d, scores + j);
  std::fill(scores + seen, scores + row, 0.0F);
}

// of = weights * (of - sum(weights * of)) * scale: through the softmax and the division by the root.
inline void softmax_row_gradient(const float* weights, float* of, std::size_t seen, std::size_t row,
                                 float scale) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t end = (seen + lanes - 1) / lanes * lanes;
  auto sum = hn::Zero(d);
  for (std::size_t j = 0; j < end; j += lanes)
    sum = hn::MulAdd(hn::LoadU(d, weights + j), hn::LoadU(d, of + j), sum);
  sum = hn::SumOfLanes(d, sum);
  for (std::size_t j = 0; j < end; j += lanes) {
    const auto scaled = hn::Mul(hn::LoadU(d, weights + j), hn::Set(d, scale));
    hn::StoreU(hn::Mul(scaled, hn::Sub(hn::LoadU(d, of + j), sum)), d, of + j);
  }
  std::fill(of + end, of + row, 0.0F);
}

inline float scale_of(const AttentionHead& head) {
  return 1 / std::sqrt(static_cast<float>(head.width));
}

inline void attend(const AttentionHead& head, float* weights, float* seen, std::size_t seen_stride,
                   float* scratch) {
  const std::size_t row = attention_row(head.length);
  turn(head, head.key, scratch);
  scores_of(head, {head.query, head.stride}, scratch, {weights, row});
  for (std::size_t i = 0; i < head.length; ++i)
    softmax_row(weights + i * row, i + 1, row, scale_of(head));
  gather(head, weights, {head.value, head.stride}, {seen, seen_stride});
}

inline void attend_gradient(const AttentionHead& head, const float* weights, const float* of_seen,
                            std::size_t seen_stride, const AttentionGradient& to, float* scratch) {
  const std::size_t row = attention_row(head.length);
  float* of_scores = scratch + head.width * row;
  gather_back(head, weights, {of_seen, seen_stride}, {to.value, head.stride});
  turn(head, head.value, scratch);
  scores_of(head, {of_seen, seen_stride}, scratch, {of_scores, row});
  for (std::size_t i = 0; i < head.length; ++i)
    softmax_row_gradient(weights + i * row, of_scores + i * row, i + 1, row, scale_of(head));
  gather(head, of_scores, {head.key, head.stride}, {to.query, head.stride});
  gather_back(head, of_scores, {head.query, head.stride}, {to.key, head.stride});
}

}  // namespace kith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

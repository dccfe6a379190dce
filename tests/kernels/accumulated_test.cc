#include <cmath>

#include "kith/base/rng.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/kernels/reference/reference_kernels.h"
#include "tests/kernels/targets.h"

// Rules over several steps, each against the textbook recurrence written out for one parameter.

namespace kith::kernels {
namespace {

constexpr std::size_t kCount = 21;

template <class T>
std::vector<std::unique_ptr<Kernels<T>>> both() {
  std::vector<std::unique_ptr<Kernels<T>>> made;
  made.push_back(make_reference_kernels<T>());
  made.push_back(make_cpu_kernels<T>());
  return made;
}

std::vector<double> draw(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<double> made(kCount);
  for (double& x : made)
    x = rng.normal();
  return made;
}

class AccumulatedTest : public EachTarget {};

// Algorithm 4 of arXiv 2410.11998 with the epsilon outside the root, as its authors' code has it.
struct Textbook {
  double x, M = 0, V = 0, a = 0;

  void step(int k, int s, double mixed, double g, const AdamOptions& o) {
    const int j = (k + s - 1) / s;
    x = mixed;
    if (o.decay_kind == Decay::decoupled) x -= o.lr * o.decay * x;
    if (o.decay_kind == Decay::coupled) g += o.decay * x;
    a += g / s;
    const double m = o.beta1 * M + (1 - o.beta1) * g;
    const double v = o.beta2 * V + (1 - o.beta2) * g * g;
    const double bias1 = 1 - std::pow(o.beta1, j);
    const double bias2 = 1 - std::pow(o.beta2, j);
    x -= o.lr / bias1 * m / (std::sqrt(v) / std::sqrt(bias2) + o.eps);
    if (k % s != 0) return;
    M = o.beta1 * M + (1 - o.beta1) * a;
    V = o.beta2 * V + (1 - o.beta2) * a * a;
    a = 0;
  }
};

TEST_P(AccumulatedTest, FollowsTheTextbookOverSeveralCommits) {
  for (const auto& kernels : both<double>()) {
    for (const int commit_every : {1, 3, 4}) {
      for (const Decay kind : {Decay::coupled, Decay::decoupled}) {
        std::vector<double> x = draw(1), next(kCount), m(kCount), v(kCount), a(kCount);
        const std::vector<double> peer = draw(2);
        std::vector<Textbook> want;
        for (const double start : x)
          want.push_back({start});
        for (int k = 1; k <= 3 * commit_every + 1; ++k) {
          const std::vector<double> g = draw(100 + static_cast<std::uint64_t>(k));
          const AdamOptions options{.lr = 0.05, .decay = 0.1, .decay_kind = kind, .step = k};
          const Source sources[] = {{x.data(), DType::f64, 0.75}, {peer.data(), DType::f64, 0.25}};
          kernels->mix_accum_adam({next.data()}, {sources}, {g.data(), DType::f64}, m.data(), v.data(),
                                  a.data(), {options, commit_every}, kCount);
          std::swap(x, next);
          for (std::size_t i = 0; i < kCount; ++i) {
            want[i].step(k, commit_every, 0.75 * want[i].x + 0.25 * peer[i], g[i], options);
            ASSERT_NEAR(x[i], want[i].x, 1e-13) << "step " << k << " commit_every " << commit_every;
            ASSERT_NEAR(m[i], want[i].M, 1e-14) << "step " << k << " commit_every " << commit_every;
            ASSERT_NEAR(v[i], want[i].V, 1e-14) << "step " << k << " commit_every " << commit_every;
            ASSERT_NEAR(a[i], want[i].a, 1e-14) << "step " << k << " commit_every " << commit_every;
          }
        }
      }
    }
  }
}

TEST_P(AccumulatedTest, MomentsRestBetweenCommits) {
  const auto kernels = make_cpu_kernels<float>();
  std::vector<float> x(kCount, 1), m(kCount, 0.5F), v(kCount, 0.25F), a(kCount), g(kCount, 2);
  const Source source{x.data(), DType::f32, 1};
  for (int k = 1; k <= 3; ++k) {
    kernels->mix_accum_adam({x.data()}, {{&source, 1}}, {g.data()}, m.data(), v.data(), a.data(),
                            {{.lr = 0.1, .step = k}, 4}, kCount);
    EXPECT_EQ(m, std::vector<float>(kCount, 0.5F));
    EXPECT_EQ(v, std::vector<float>(kCount, 0.25F));
    EXPECT_EQ(a, std::vector<float>(kCount, 0.5F * static_cast<float>(k)));
  }
  kernels->mix_accum_adam({x.data()}, {{&source, 1}}, {g.data()}, m.data(), v.data(), a.data(),
                          {{.lr = 0.1, .step = 4}, 4}, kCount);
  EXPECT_EQ(a, std::vector<float>(kCount, 0.0F));
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_FLOAT_EQ(m[i], 0.9F * 0.5F + 0.1F * 2);
    EXPECT_FLOAT_EQ(v[i], 0.999F * 0.25F + 0.001F * 4);
  }
}

TEST_P(AccumulatedTest, AWindowOfOneIsAdamToTheBit) {
  const auto kernels = make_cpu_kernels<double>();
  std::vector<double> x = draw(1), y = x, m1 = draw(3), m2 = m1, v1(kCount, 0.5), v2 = v1, a(kCount);
  const Source source_x{x.data(), DType::f64, 1};
  const Source source_y{y.data(), DType::f64, 1};
  for (int k = 1; k <= 3; ++k) {
    const std::vector<double> g = draw(50 + static_cast<std::uint64_t>(k));
    const AdamOptions options{.lr = 0.1, .decay = 0.01, .decay_kind = Decay::decoupled, .step = k};
    kernels->mix_adam({x.data()}, {{&source_x, 1}}, {g.data(), DType::f64}, m1.data(), v1.data(), options,
                      kCount);
    kernels->mix_accum_adam({y.data()}, {{&source_y, 1}}, {g.data(), DType::f64}, m2.data(), v2.data(),
                            a.data(), {options, 1}, kCount);
    EXPECT_EQ(x, y);
    EXPECT_EQ(m1, m2);
    EXPECT_EQ(v1, v2);
  }
}

// torch.optim.SGD: the first buffer is the gradient itself, without dampening.
TEST_P(AccumulatedTest, SgdMomentumBeginsWithTheGradient) {
  for (const auto& kernels : both<double>()) {
    std::vector<double> x(kCount, 1), b(kCount, 99), g(kCount, 2);
    const Source source{x.data(), DType::f64, 1};
    SgdOptions options{.lr = 0.1, .momentum = 0.5, .dampening = 0.25, .first = true};
    kernels->mix_sgd({x.data()}, {{&source, 1}}, {g.data(), DType::f64}, b.data(), options, kCount);
    EXPECT_DOUBLE_EQ(b[20], 2);
    EXPECT_DOUBLE_EQ(x[20], 1 - 0.1 * 2);
    options.first = false;
    kernels->mix_sgd({x.data()}, {{&source, 1}}, {g.data(), DType::f64}, b.data(), options, kCount);
    EXPECT_DOUBLE_EQ(b[20], 0.5 * 2 + 0.75 * 2);
    EXPECT_DOUBLE_EQ(x[20], 0.8 - 0.1 * 2.5);
    options = {.lr = 0.1, .momentum = 0.5, .nesterov = true};
    kernels->mix_sgd({x.data()}, {{&source, 1}}, {g.data(), DType::f64}, b.data(), options, kCount);
    EXPECT_DOUBLE_EQ(b[20], 0.5 * 2.5 + 2);
    EXPECT_DOUBLE_EQ(x[20], 0.55 - 0.1 * (2 + 0.5 * 3.25));
  }
}

TEST_P(AccumulatedTest, WithoutMomentumSgdNeedsNoBuffer) {
  const auto kernels = make_cpu_kernels<float>();
  std::vector<float> x(kCount, 1), g(kCount, 2);
  const Source source{x.data(), DType::f32, 1};
  kernels->mix_sgd({x.data()}, {{&source, 1}}, {g.data()}, nullptr, {.lr = 0.25, .first = true}, kCount);
  EXPECT_EQ(x, std::vector<float>(kCount, 0.5F));
}

INSTANTIATE_TEST_SUITE_P(Targets, AccumulatedTest, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace kith::kernels

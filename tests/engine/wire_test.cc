// Models on the 8-bit wire: the recursion in plain loops, the bytes, and what the draws are for (Note
// [Dither] in kith/kernels/int8.h).
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kith/engine/bucketing.h"
#include "tests/engine/method_support.h"

namespace kith::engine {
namespace {

using plain::Vector;

EngineOptions on_eight_bits(const std::string& topology) {
  EngineOptions options = options_for("awc", "sgd", topology);
  options.optimizer.momentum = 0;
  options.wire = DType::i8;
  options.stagger = false;
  options.bucket_bytes = 1 << 20;
  return options;
}

// ---- the wire once more, from its page and not from the kernels

std::uint32_t scrambled(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= x >> 15;
  x *= 0x846ca68b;
  return x ^ (x >> 16);
}

// What readers see of a segment shorter than a block. `draw` is that of its first element.
Vector as_read(const Vector& x, std::uint64_t draw) {
  float greatest = 0;
  for (const double value : x)
    greatest = std::max(greatest, std::fabs(static_cast<float>(value)));
  int exponent = 0;
  const float mantissa = std::frexp(greatest / 126.0F, &exponent);  // 1/2 to 1: in steps of 1/16, upwards
  const float scale = std::ldexp(std::ceil(mantissa * 16) / 16, exponent);
  const float inverse = 1.0F / scale;
  Vector read;
  for (std::size_t e = 0; e < x.size(); ++e) {
    const std::uint64_t place = draw + e / 4 * 4;
    const std::uint32_t bits =
        scrambled(static_cast<std::uint32_t>(place ^ (place >> 32))) >> (e % 4 * 8) & 0xff;
    const float noise = (static_cast<float>(bits) + 0.5F) / 256.0F - 0.5F;
    read.push_back(static_cast<double>(std::nearbyint(static_cast<float>(x[e]) * inverse + noise) * scale));
  }
  return read;
}

// Two segments, the second of which comes first in the bucket and fills a block of its own.
Vector as_read_of_both(const Vector& x, std::uint64_t draw) {
  const auto half = static_cast<std::ptrdiff_t>(kElements / 2);
  Vector a = as_read(Vector(x.begin(), x.begin() + half), draw + 128);
  const Vector b = as_read(Vector(x.begin() + half, x.end()), draw);
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::uint64_t seed_of_bucket() {
  const std::size_t half = kElements / 2;
  const std::vector<Segment> table{{"a", nullptr, half, DType::f64, half},
                                   {"b", nullptr, half, DType::f64, half}};
  const std::vector<BucketPlan> plans = cut_buckets(table, 1 << 20, 128);
  EXPECT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].count, 256u);
  return hash_words(digest(plans[0], table), 0);
}

TEST(EightBitWire, EqualsThePlainLoops) {
  constexpr int kWorkers = 5, kSteps = 40;
  constexpr double kLr = 0.05;
  for (const char* topology : {"ring-static", "exp", "ring"}) {
    EngineOptions options = on_eight_bits(topology);
    options.schedule.shape = graph::Shape::single_node(kWorkers);
    const plain::Problem problem = quadratic_problem(kWorkers, kSteps, options.schedule);
    std::vector<Vector> x(kWorkers, problem.start);
    for (int t = 0; t < kSteps; ++t) {
      const plain::Matrix w = problem.mixing(t);
      std::vector<Vector> q, next = x;
      for (const Vector& one : x)
        q.push_back(as_read_of_both(one, hash_words(seed_of_bucket(), t + 1)));
      for (std::size_t i = 0; i < kWorkers; ++i) {
        const Vector gradient = problem.gradient(static_cast<int>(i), t, x[i]);
        for (std::size_t e = 0; e < kElements; ++e) {
          for (std::size_t j = 0; j < kWorkers; ++j)
            next[i][e] += w[i][j] * (q[j][e] - q[i][e]);
          next[i][e] -= kLr * gradient[e];
        }
      }
      x = next;
    }
    for (const std::string& backend : support::all_backends()) {
      const auto models = train_problem(backend, options, problem, kLr);
      for (std::size_t i = 0; i < kWorkers; ++i)
        EXPECT_LT(largest_difference(models[i], x[i]), 1e-12)
            << topology << ", " << backend << ", worker " << i;
    }
  }
}

// A message goes to the neighbours of the round and to nobody else: blocks of 128 bytes and a scale.
TEST(EightBitWire, ReadsAByteAnElementAndAScaleABlock) {
  support::run_world("inproc", 4, [](support::Worker& worker) {
    Quadratic<float> quadratic(worker, on_eight_bits("exp"), {300, 5});
    EXPECT_EQ(quadratic.engine().layout(), Layout::staged);
    quadratic.engine().start();
    for (int t = 0; t < 6; ++t) {
      const StepReport report = quadratic.step();
      EXPECT_EQ(report.bytes_read, (3 + 1) * 132u) << "one neighbour";
      if (t == 0) continue;  // all begin with the same model
      EXPECT_GT(report.consensus.distance(512).value_or(0), 0.0) << "the wire can be looked at";
    }
    return std::string();
  });
}

TEST(EightBitWire, SmallStepsAreNotLost) {
  support::run_world("inproc", 4, [](support::Worker& worker) {
    Quadratic<float> quadratic(worker, on_eight_bits("complete"), {8});
    quadratic.engine().start();
    const float start = quadratic.model()[0];
    const std::vector<float> gradient(8, 1.0f);
    for (int t = 0; t < 200; ++t)
      quadratic.engine().step({{{gradient.data(), DType::f32, 1e-5, 0}}}, {});
    EXPECT_NEAR(quadratic.model()[0], start - 200e-5f, 2e-5f);
    return std::string();
  });
}

// Two workers are pulled apart by much less than a quantum in a step. In full they rest a little apart. On 8
// bits they are there on average over the steps; rounded to the nearest they would be most of a quantum
// apart.
TEST(EightBitWire, ModelsAreOnAverageWhereTheFullWireHasThem) {
  constexpr int kSteps = 6000, kSettled = 1000;
  const auto mean_gaps = [](std::optional<DType> wire) {
    std::vector<std::vector<double>> means(2);
    support::run_world("inproc", 2, [&](support::Worker& worker) {
      EngineOptions options = on_eight_bits("complete");
      options.wire = wire;
      Quadratic<double> quadratic(worker, options, {64});
      quadratic.engine().start();
      std::vector<double> sum(64);
      for (int t = 0; t < kSteps; ++t) {
        quadratic.backward(1e-3);
        quadratic.inputs()[0].decay = 0;
        quadratic.engine().step(quadratic.inputs(), {});
        if (t < kSettled) continue;
        const std::vector<double> model = quadratic.model();
        for (std::size_t e = 0; e < sum.size(); ++e)
          sum[e] += model[e] / (kSteps - kSettled);
      }
      means[static_cast<std::size_t>(worker.rank)] = sum;
      return std::string();
    });
    std::vector<double> gaps;
    for (std::size_t e = 0; e < means[0].size(); ++e)
      gaps.push_back(means[0][e] - means[1][e]);
    return gaps;
  };
  const std::vector<double> full = mean_gaps({}), rounded = mean_gaps(DType::i8);
  double off = 0, size = 0;
  for (std::size_t e = 0; e < full.size(); ++e) {
    off += std::pow(rounded[e] - full[e], 2) / static_cast<double>(full.size());
    size += std::pow(full[e], 2) / static_cast<double>(full.size());
  }
  // Weights of order 1: a quantum is about 0.01, and the gap in full a fifth of that.
  EXPECT_GT(std::sqrt(size), 0.0005);
  EXPECT_LT(std::sqrt(off), 0.0006);
}

}  // namespace
}  // namespace kith::engine

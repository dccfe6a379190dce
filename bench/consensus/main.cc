// What the consensus estimate of a step costs: kith::gossip::sample_consensus on one bucket and two
// neighbours, beside a pass over the three vectors.
//
//   build/release/bench/consensus
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kith/base/rng.h"
#include "kith/gossip/consensus_sample.h"

namespace kith::bench {
namespace {

using Vectors = std::vector<std::vector<float>>;

// |sum_j w_ij x_j - x_i|^2 with weights of a third, of all elements.
double whole(const Vectors& x) {
  double sum = 0;
  for (std::size_t e = 0; e < x[0].size(); ++e) {
    const double move = (static_cast<double>(x[1][e]) + x[2][e] - 2.0 * x[0][e]) / 3;
    sum += move * move;
  }
  return sum;
}

double sampled(const Vectors& x, std::uint64_t round) {
  const std::vector<gossip::SampledVector> others{{x[1].data(), DType::f32, 1, 1.0 / 3},
                                                  {x[2].data(), DType::f32, 1, 1.0 / 3}};
  return gossip::sample_consensus({x[0].data(), DType::f32}, others, x[0].size(), round).moved;
}

template <class Work>
double median_us(int repeats, const Work& work) {
  std::vector<double> times;
  for (int r = 0; r < repeats; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    work(r);
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats) / 2];
}

}  // namespace

int main_of_bench() {
  std::printf("%12s %12s %12s %10s\n", "elements", "sample us", "pass us", "estimate");
  for (const std::size_t count : {std::size_t{100'000}, std::size_t{1'000'000}, std::size_t{10'000'000}}) {
    Vectors x(3, std::vector<float>(count));
    Rng rng(count);
    for (auto& vector : x)
      for (float& value : vector)
        value = static_cast<float>(rng.uniform());
    double estimate = 0, exact = 0;
    const double pass = median_us(5, [&](int) { exact = whole(x); });
    constexpr int kRounds = 200;
    const double sample =
        median_us(kRounds, [&](int r) { estimate += sampled(x, static_cast<std::uint64_t>(r)) / kRounds; });
    if (std::abs(estimate / exact - 1) > 0.02) {
      std::fprintf(stderr, "the estimate is %g of what it estimates\n", estimate / exact);
      return EXIT_FAILURE;
    }
    std::printf("%12zu %12.1f %12.0f %10.4f\n", count, sample, pass, estimate / exact);
  }
  return EXIT_SUCCESS;
}

}  // namespace kith::bench

int main() {
  return kith::bench::main_of_bench();
}

// kernels: the fused accumulated-AdamW step with mixing and publishing, against the memory it must move and
// against the same arithmetic in separate passes. Single thread; modes alternate within blocks, so ratios
// stand on a busy machine.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include <time.h>

#include "bench/common/report.h"
#include "bench/kernels/baselines.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::bench {
namespace {

constexpr std::size_t kCount = std::size_t{16} << 20;
constexpr double kBytesMoved = 8.0 * sizeof(float) * static_cast<double>(kCount);

class Floats {
 public:
  // Page-aligned, with a different offset into the page for each array, as parts of one allocation would
  // have.
  explicit Floats(std::size_t index)
      : memory_(static_cast<float*>(std::aligned_alloc(4096, kCount * sizeof(float) + 65536)), &std::free) {
    if (memory_ == nullptr) throw std::bad_alloc();
    data_ = memory_.get() + index * 272;
    std::fill_n(data_, kCount, 0.0F);
  }
  float* data() const { return data_; }

 private:
  std::unique_ptr<float, decltype(&std::free)> memory_;
  float* data_ = nullptr;
};

class Setup {
 public:
  Setup() {
    for (std::size_t i = 0; i < 9; ++i)
      floats_.emplace_back(i);
    arrays_ = {kCount, at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8)};
    reset();
    options_.adam.lr = 1e-3;
    options_.adam.decay = 0.01;
    options_.adam.decay_kind = kernels::Decay::decoupled;
    options_.adam.step = 6;  // one that does not commit
  }

  const Arrays& arrays() const { return arrays_; }

  // Parameters, gradients and state as in the middle of training.
  void reset() {
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto draw = [&](std::uint64_t stream) {
        return static_cast<float>(mix_bits(i * 8 + stream) >> 40) * 0x1.0p-24F - 0.5F;
      };
      at(0)[i] = draw(0);
      at(1)[i] = draw(1);
      at(2)[i] = 0.01F * draw(2);
      at(3)[i] = 0.01F * draw(3);
      at(4)[i] = 1e-4F * (draw(4) + 0.6F);
      at(5)[i] = 0.01F * draw(5);
    }
  }

  void fused() {
    const std::array sources{kernels::Source{arrays_.self, DType::f32, 0.5},
                             kernels::Source{arrays_.peer, DType::f32, 0.5}};
    kernels_->mix_accum_adam({arrays_.next}, {sources}, {arrays_.gradient}, arrays_.m, arrays_.v,
                             arrays_.accumulator, options_, kCount);
  }
  void separate() { separate_passes(arrays_, options_); }

  // The fused pass and the separate ones give the same parameters and accumulator, and the bare loops what
  // they promise. Throws Error when they do not.
  void verify() {
    fused();
    const std::vector<float> next(arrays_.next, arrays_.next + kCount);
    const std::vector<float> accumulated(arrays_.accumulator, arrays_.accumulator + kCount);
    reset();
    separate();
    for (std::size_t i = 0; i < kCount; ++i) {
      expect_near("separate", i, next[i], arrays_.next[i]);
      expect_near("separate accumulator", i, accumulated[i], arrays_.accumulator[i]);
    }
    for (const Stores stores : {Stores::cached, Stores::streamed}) {
      reset();
      bare_pass(arrays_, stores);
      for (std::size_t i = 0; i < kCount; ++i) {
        const float moments = arrays_.m[i] + arrays_.v[i] - arrays_.accumulator[i];
        expect_near("bare", i, arrays_.self[i] + arrays_.peer[i] + arrays_.gradient[i] + moments,
                    arrays_.next[i]);
      }
    }
    reset();
  }

 private:
  static void expect_near(const char* what, std::size_t i, float want, float got) {
    if (std::fabs(want - got) <= 1e-6F) return;
    throw Error(cat("element ", i, " of ", what, " is ", got, " instead of ", want), "bench kernels");
  }

  float* at(std::size_t i) { return floats_[i].data(); }

  std::vector<Floats> floats_;
  Arrays arrays_;
  kernels::AccumAdamOptions options_;
  std::unique_ptr<kernels::Kernels<float>> kernels_ = kernels::make_cpu_kernels<float>();
};

// Processor time of this thread: what others on the machine take of the clock is not counted.
double seconds_of(const std::function<void()>& body) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  body();
  return now() - start;
}

int run(const Options& options) {
  Setup setup;
  setup.verify();
  std::printf(
      "kernels: accumulated AdamW + mix of self and one neighbour + publish, %zu parameters, fp32, one "
      "thread, %s\n",
      kCount, kernels::cpu_target().c_str());
  std::printf("separate passes (reads, writes):\n");
  for (const Pass& pass : list_of_passes()) {
    std::printf("  %-26s %d %d\n", pass.operation.c_str(), pass.reads, pass.writes);
  }

  struct Mode {
    const char* name;
    std::function<void()> body;
    std::vector<double> times{};
  };
  std::array<Mode, 4> modes{
      Mode{"fused", [&] { setup.fused(); }},
      Mode{"bare_cached", [&] { bare_pass(setup.arrays(), Stores::cached); }},
      Mode{"bare_streamed", [&] { bare_pass(setup.arrays(), Stores::streamed); }},
      Mode{"separate", [&] { setup.separate(); }},
  };
  std::vector<double> bandwidth;
  std::vector<double> fusion;
  const int blocks = options.quick ? 7 : 15;
  for (int block = 0; block < blocks; ++block) {
    std::array<std::vector<double>, 4> times;
    for (int repeat = 0; repeat < 3; ++repeat) {
      for (std::size_t m = 0; m < modes.size(); ++m)
        times[m].push_back(seconds_of(modes[m].body));
    }
    std::array<double, 4> median{};
    for (std::size_t m = 0; m < modes.size(); ++m) {
      median[m] = summarise(times[m]).median;
      modes[m].times.push_back(median[m]);
    }
    bandwidth.push_back(std::min(median[1], median[2]) / median[0]);
    fusion.push_back(median[3] / median[0]);
  }

  Report report("kernels");
  for (const Mode& mode : modes) {
    const Summary time = summarise(mode.times);
    std::printf("%-14s %7.2f ms [%.2f, %.2f]", mode.name, 1e3 * time.median, 1e3 * time.low, 1e3 * time.high);
    if (std::string(mode.name) != "separate") std::printf("  %5.1f GB/s", 1e-9 * kBytesMoved / time.median);
    std::printf("\n");
    report.measure(cat(mode.name, "_seconds"), time, "s");
  }
  report.measure("bandwidth_ratio", summarise(bandwidth), "");
  report.measure("fusion_ratio", summarise(fusion), "");
  report.at_least("kernels.bandwidth", summarise(bandwidth).median, 0.95);
  report.at_least("kernels.fusion", summarise(fusion).median, 3);
  return report.finish(options);
}

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  const auto options =
      kith::bench::parse(argc, argv, "kernels", "fused mix + step against its memory traffic");
  try {
    return kith::bench::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernels: %s\n", error.what());
    return 1;
  }
}

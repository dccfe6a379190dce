// gpu_kernels: mix with one neighbour + accumulated AdamW + publish on GPT-2 small's parameters in one
// launch, against the copy bandwidth of the same GPU in the same run, against separate PyTorch operations,
// with rounded wires, and with encoded differences and replicas. Times are medians over periods of 4 steps
// (one of which commits), by the device's own clock; the variants take turns.
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "bench/common/report.h"
#include "bench/gpu_kernels/device_step.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/kernels/cuda/cuda_kernels.h"
#include "kith/kernels/cuda/device.h"

namespace kith::bench {
namespace {

using kernels::cuda::require;

class Stopwatch {
 public:
  Stopwatch() {
    for (cudaEvent_t* event : {&begin_, &end_})
      require(cudaEventCreate(event), "an event");
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  double milliseconds(const std::function<void()>& body) {
    require(cudaEventRecord(begin_), "an event");
    body();
    require(cudaEventRecord(end_), "an event");
    require(cudaEventSynchronize(end_), "the timed work");
    float elapsed = 0;
    require(cudaEventElapsedTime(&elapsed, begin_, end_), "an event");
    return elapsed;
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

struct Mode {
  std::string name;
  double bytes = 0;  // per call
  std::function<void()> body;
  int steps = 1;  // that a call makes
  std::vector<double> times{};

  double median() const { return summarise(times).median; }
};

std::optional<double> separate_milliseconds() {
  std::fflush(stdout);
  const std::string command = cat("'", KITH_PYTHON, "' '", KITH_BENCH_SOURCE, "/separate.py'");
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(::popen(command.c_str(), "r"), ::pclose);
  double value = 0;
  if (!out || std::fscanf(out.get(), "%lf", &value) != 1) return std::nullopt;
  return value;
}

int run(const Options& options) {
  const std::string obstacle = kernels::cuda_obstacle();
  if (!obstacle.empty()) throw Error(obstacle, "bench gpu_kernels");
  cudaDeviceProp device{};
  require(cudaGetDeviceProperties(&device, 0), "the GPU");
  const std::optional<double> separate = separate_milliseconds();

  const auto kernels = kernels::make_cuda_kernels<float>();
  const std::vector<Tensor> model = gpt2_small();
  DeviceStep f32(model, DType::f32), bf16(model, DType::bf16), i8(model, DType::i8);
  const std::vector<std::string> codecs{"int8", "qsgd 4",     "qsgd-max 4",
                                        "sign", "top-k 0.01", "random-k 0.01"};
  std::vector<std::unique_ptr<DeviceStep>> coded;
  for (const std::string& codec : codecs)
    coded.push_back(std::make_unique<DeviceStep>(model, DType::f32, codec));
  for (DeviceStep* step : {&f32, &bf16, &i8})
    step->verify(*kernels);
  for (const auto& step : coded)
    step->verify(*kernels);
  std::printf("%s, %d multiprocessors; %zu parameters in %zu tensors; results verified\n", device.name,
              device.multiProcessorCount, f32.count(), model.size());

  constexpr std::size_t kCopied = std::size_t{2} << 30;
  const auto from = kernels::cuda::allocate(kCopied), to = kernels::cuda::allocate(kCopied);
  require(cudaMemset(from.get(), 0x3d, kCopied), "filling");
  const auto period = [&](DeviceStep& step, std::size_t per_launch) {
    for (std::int64_t k = 1; k <= kCommitEvery; ++k)
      step.run(*kernels, k, per_launch);
  };
  const auto bytes_of = [](const DeviceStep& step) {
    double sum = 0;
    for (std::int64_t k = 1; k <= kCommitEvery; ++k)
      sum += step.bytes(k);
    return sum;
  };
  constexpr std::size_t kAll = 1000;
  std::vector<Mode> modes{
      {"copy", 2.0 * kCopied,
       [&] { require(cudaMemcpyAsync(to.get(), from.get(), kCopied, cudaMemcpyDeviceToDevice), "a copy"); }},
      {"fp32", bytes_of(f32), [&] { period(f32, kAll); }, kCommitEvery},
      {"bf16", bytes_of(bf16), [&] { period(bf16, kAll); }, kCommitEvery},
      {"int8", bytes_of(i8), [&] { period(i8, kAll); }, kCommitEvery},
      {"fp32, 12 tensors a launch", bytes_of(f32), [&] { period(f32, 12); }, kCommitEvery},
      {"fp32, step that rests", f32.bytes(1), [&] { f32.run(*kernels, 1); }},
      {"fp32, step that commits", f32.bytes(kCommitEvery), [&] { f32.run(*kernels, kCommitEvery); }},
  };
  const std::size_t first_coded = modes.size();
  for (std::size_t k = 0; k < codecs.size(); ++k)
    modes.push_back({cat(codecs[k], ", replicas"), bytes_of(*coded[k]), [&, k] { period(*coded[k], kAll); },
                     kCommitEvery});
  Stopwatch watch;
  const int rounds = options.quick ? 20 : 60;
  for (int round = -5; round < rounds; ++round) {
    for (Mode& mode : modes) {
      const double time = watch.milliseconds(mode.body) / mode.steps;
      if (round >= 0) mode.times.push_back(time);
    }
  }

  Report report("gpu_kernels");
  const double copy_bandwidth = modes[0].bytes / modes[0].median();
  std::printf("%-26s %10s %18s %9s %8s\n", "", "ms a step", "[10%, 90%]", "TB/s", "of copy");
  for (const Mode& mode : modes) {
    const Summary time = summarise(mode.times);
    const double bandwidth = mode.bytes / mode.steps / time.median;
    std::printf("%-26s %10.4f   [%.4f, %.4f] %9.3f %8.3f\n", mode.name.c_str(), time.median, time.low,
                time.high, 1e-9 * bandwidth, bandwidth / copy_bandwidth);
    report.measure(cat(mode.name, " milliseconds"), time, "ms");
  }
  const double fused = modes[1].median();
  std::printf("bytes a step, mean of 4 steps: fp32 %.4f GB, bf16 %.4f GB, int8 %.4f GB\n",
              1e-9 * modes[1].bytes / kCommitEvery, 1e-9 * modes[2].bytes / kCommitEvery,
              1e-9 * modes[3].bytes / kCommitEvery);
  report.at_most("gpu_kernels.fused_ms", fused, 1.05);
  report.at_least("gpu_kernels.bandwidth", modes[1].bytes / kCommitEvery / fused / copy_bandwidth, 0.93);
  if (separate) {
    std::printf("separate PyTorch operations: %.4f ms a step\n", *separate);
    report.at_least("gpu_kernels.fusion", *separate / fused, 4);
  } else {
    std::printf("separate PyTorch operations: not measured (%s has no PyTorch with CUDA)\n", KITH_PYTHON);
  }
  const auto smaller = [&](const DeviceStep& step) {
    return static_cast<double>(f32.payload_bytes()) / static_cast<double>(step.payload_bytes());
  };
  report.at_least("gpu_kernels.bf16_payload", smaller(bf16), 2);
  report.at_most("gpu_kernels.bf16_time", modes[2].median() / fused, 1.05);
  report.at_least("gpu_kernels.int8_payload", smaller(i8), 3.5);
  report.at_most("gpu_kernels.int8_time", modes[3].median() / fused, 1.05);
  std::printf("with replicas, over fp32: time, and bytes counted\n");
  for (std::size_t k = 0; k < codecs.size(); ++k) {
    const Mode& mode = modes[first_coded + k];
    std::printf("%-26s %10.3f %10.3f   payload %.1f times smaller\n", codecs[k].c_str(),
                mode.median() / fused, mode.bytes / modes[1].bytes, smaller(*coded[k]));
    report.measure(cat(mode.name, " over fp32"), mode.median() / fused, "");
  }
  return report.finish(options);
}

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  const auto options = kith::bench::parse(argc, argv, "gpu_kernels",
                                          "fused mix + step + publish on a GPU against its memory traffic");
  try {
    return kith::bench::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_kernels: %s\n", error.what());
    return 1;
  }
}

#pragma once

#include <string>

#include "bench/common/report.h"
#include "bench/gpu_training/job.h"
#include "kith/base/clock.h"

namespace kith::bench {

struct PartOptions {
  std::string device;  // cuda; on the cpu the models are tiny, which shows that the program works and no more
  std::string backend{};  // of several workers
  int blocks = 7;
  double block_seconds = 0.8;
  Deadline deadline{};

  bool has_goals() const { return device == "cuda" && backend == "cuda_ipc"; }
};

// Each prints its table as soon as it has one, and adds its goals to the report where its results are right.
// Error when they are not, or when a process fails or is late.

// 4 workers train an MLP of 134 M parameters: local-only, exp, aer, exp on a bf16 wire. Iteration times.
void measure_mlp(const PartOptions& options, Report& report);
// Beside it, PyTorch's DDP over Gloo.
void measure_ddp(const PartOptions& options, Report& report);
// One worker trains GPT-2 small with batches of 8 or 32, by turns with PyTorch programs, eager and compiled.
// Tokens per second.
void measure_gpt_8(const PartOptions& options, Report& report);
void measure_gpt_32(const PartOptions& options, Report& report);
// The same with ResNet-50 and torchvision's.
void measure_resnet(const PartOptions& options, Report& report);
// 4 workers train GPT-2 small: local-only and aer. Tokens per second.
void measure_gpt_workers(const PartOptions& options, Report& report);

}  // namespace kith::bench

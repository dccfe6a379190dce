#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kith::bench {

// What the contestants of this benchmark train, kith's workers and PyTorch's alike (eager.py and ddp.py
// repeat it).
//   mlp  `layers` of Linear(width, width) with ReLU between them; inputs and targets are normal numbers of
//   the
//        worker's own; mean squared error
//   gpt  the transformer of kith/train/models/gpt.h under bf16 autocast; tokens are a formula of their index:
//        u = (1103515245 k + 12345 mod 2^31) / 2^31,  token k = floor(vocabulary u^3), the target is the next
//   resnet50  that of kith/train/models/resnet.h under bf16 autocast, images of `width` pixels; normal
//        numbers and a class in turn
struct GpuJob {
  static constexpr double kLr = 5e-5;  // AdamW, decay 0.01

  std::string model;
  std::string device;  // cuda or cpu
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t batch = 0;  // of each worker
  std::int64_t heads = 0;
  std::int64_t context = 0;
  std::int64_t vocabulary = 0;
  std::string backend = "shm";  // of several workers

  std::int64_t tokens() const { return batch * context; }
  // What is counted by the second.
  std::int64_t units() const { return model == "gpt" ? tokens() : batch; }
  const char* unit() const { return model == "gpt" ? "tokens" : "samples"; }

  // As words of a command line, for the workers.
  std::vector<std::string> words() const {
    std::vector<std::string> all{model, device};
    for (const std::int64_t number : {layers, width, batch, heads, context, vocabulary})
      all.push_back(std::to_string(number));
    all.push_back(backend);
    return all;
  }
  static constexpr int kWords = 9;
  // REQUIRES: what words() gave, at `first`.
  static GpuJob from(const char* const* first) {
    return {first[0],
            first[1],
            std::stol(first[2]),
            std::stol(first[3]),
            std::stol(first[4]),
            std::stol(first[5]),
            std::stol(first[6]),
            std::stol(first[7]),
            first[8]};
  }
};

}  // namespace kith::bench

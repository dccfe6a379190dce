#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "bench/gpu_kernels/gpt2.h"
#include "kith/kernels/codec_kernels.h"
#include "kith/kernels/kernels.h"

namespace kith::bench {

constexpr int kCommitEvery = 4;

// One worker's memory on the GPU and a neighbour's published model, and the step over it: mix with that
// neighbour, accumulated AdamW with commits every 4 steps, publish. On the fp32 wire the model alternates
// between the two slots of its window; on the others it keeps its place and the slot gets the encoded copy.
//
// With a codec (wire fp32) encoded differences travel, as the engine sends them: the neighbour's replica
// follows its message; the pass mixes the model with both replicas and writes a copy of the next one; that is
// encoded, and one's own replica follows.
class DeviceStep {
 public:
  DeviceStep(std::vector<Tensor> model, DType wire, const std::string& codec = "");

  // Step `step` (from 1), in launches of `per_launch` tensors each.
  void run(kernels::Kernels<float>& kernels, std::int64_t step, std::size_t per_launch = 1000);

  // Runs two steps, the second of which commits, and compares samples with the double reference. Throws Error
  // where they differ.
  void verify(kernels::Kernels<float>& kernels);

  std::size_t count() const { return count_; }
  std::size_t payload_bytes() const;
  // What step `step` must read and write, each vector once.
  double bytes(std::int64_t step) const;

 private:
  float* vector(int stream);
  std::shared_ptr<std::byte> own(std::size_t bytes);
  std::byte* make_slot();
  // A neighbour's first message, of a difference such as the steps of a model make.
  void make_replicas(const std::string& codec);
  void run_passes(kernels::Kernels<float>& kernels, std::int64_t step, std::size_t per_launch);
  void take_message();
  void write_message();
  // The codec on part of the vectors against the host's.
  void verify_codec() const;
  kernels::Pass<float> pass(const Tensor& tensor, std::int64_t step,
                            std::vector<kernels::Source>& sources) const;

  const std::vector<Tensor> model_;
  const DType wire_;
  std::size_t count_ = 0;
  std::size_t blocks_ = 0;                // of int8, each tensor from its own start
  std::vector<std::size_t> first_block_;  // by tensor
  std::vector<std::shared_ptr<std::byte>> memory_;
  float* model_at_[2] = {};  // the same twice unless the layout alternates
  std::byte* slot_ = nullptr;
  std::byte* peer_ = nullptr;
  float* m_ = nullptr;
  float* v_ = nullptr;
  float* accumulator_ = nullptr;
  std::string codec_;
  std::unique_ptr<kernels::CodecKernels<float>> codec_kernels_;  // null without a codec
  std::size_t message_bytes_ = 0;
  std::byte* message_ = nullptr;
  std::byte* peer_message_ = nullptr;
  float* replica_ = nullptr;
  float* peer_replica_ = nullptr;
  float* published_ = nullptr;
  std::vector<float*> gradients_;  // each on its own, as a framework allocates them
};

}  // namespace kith::bench

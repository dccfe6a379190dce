#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "kith/kernels/codec.h"
#include "kith/kernels/codec_parts.h"

namespace kith::kernels::cuda {

// One call of CodecKernels as the device gets it.
template <class T>
struct CodecJob {
  const T* x;  // null: the message is decoded
  T* replica;
  std::byte* message;  // decoding only reads it
  std::size_t count;
  std::uint64_t draw;
  std::size_t kept;    // top-k, random-k
  Progression places;  // random-k
  int bits;            // qsgd
  bool greatest;       // qsgd-max
  bool wide;           // x and replica are aligned for 16 bytes at once
};

// Encodes, unless with top-k, or decodes. REQUIRES: count > 0.
template <class T>
cudaError_t launch_codec(CodecSpec::Kind kind, const CodecJob<T>& job, cudaStream_t stream);

// Encodes with top-k. `memory` is of the device, aligned to 16 bytes, for vectors of up to `count` elements,
// whatever it holds. REQUIRES: count > 0.
std::size_t top_bytes(std::size_t count);
template <class T>
cudaError_t launch_top(const CodecJob<T>& job, std::byte* memory, cudaStream_t stream);

}  // namespace kith::kernels::cuda

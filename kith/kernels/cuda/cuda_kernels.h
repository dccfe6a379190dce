#pragma once

#include <memory>
#include <string>

#include "kith/kernels/kernels.h"

struct CUstream_st;

namespace kith::kernels {

struct CudaOptions {
  int device = 0;
  CUstream_st* stream = nullptr;  // a cudaStream_t of that device; null: its default stream
};

// Kernels on one GPU. Calls put work on the stream and return; only norms() waits, and the first calls may
// (loading of code). A batch of passes is one launch for every 150 passes with 450 sources, and the bits are
// those of the cpu kernels where these have fused multiply-adds. One instance serves one caller at a time.
// Error when the device cannot be used.
template <class T>
std::unique_ptr<Kernels<T>> make_cuda_kernels(const CudaOptions& options = {});

// Empty when this machine has a GPU and a driver that serve, else what is missing.
std::string cuda_obstacle();

}  // namespace kith::kernels

#pragma once

#include <memory>
#include <string_view>

#include "kith/kernels/codec_kernels.h"
#include "kith/kernels/cuda/cuda_kernels.h"

namespace kith::kernels {

// A codec's kernels on one GPU. Calls put work on the stream and return; top-k's first call for a count
// allocates memory, and may wait. Error when the device cannot be used, InputError for no codec.
template <class T>
std::unique_ptr<CodecKernels<T>> make_cuda_codec_kernels(std::string_view codec,
                                                         const CudaOptions& options = {});

}  // namespace kith::kernels

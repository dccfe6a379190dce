#include "tests/comm/cuda_ipc/busy.h"

namespace kith::comm::conformance {
namespace {

__global__ void write_for(unsigned char* memory, std::size_t bytes, long long nanoseconds) {
  const auto now = [] {
    long long time = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
  };
  const long long end = now() + nanoseconds;
  for (unsigned char value = 1; now() < end; ++value) {
    for (std::size_t i = threadIdx.x; i < bytes; i += blockDim.x)
      memory[i] = value;
  }
}

}  // namespace

void keep_busy(std::byte* memory, std::size_t bytes, int seconds) {
  write_for<<<1, 256>>>(reinterpret_cast<unsigned char*>(memory), bytes, seconds * 1'000'000'000LL);
}

}  // namespace kith::comm::conformance

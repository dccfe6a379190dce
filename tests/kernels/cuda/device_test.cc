#include "kith/kernels/cuda/device.h"

#include <cstring>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "kith/base/pin.h"
#include "kith/kernels/cuda/cuda_device.h"

namespace kith::kernels {
namespace {

// Two pages of anonymous memory, as a window's are.
std::shared_ptr<std::byte> pages() {
  const auto free = [](std::byte* p) { ::operator delete (p, std::align_val_t{kPinPage}); };
  return {static_cast<std::byte*>(::operator new (2 * kPinPage, std::align_val_t{kPinPage})), free};
}

bool known_to_driver(const void* memory) {
  cudaPointerAttributes attributes{};
  cuda::require(cudaPointerGetAttributes(&attributes, memory), "attributes");
  return attributes.type == cudaMemoryTypeHost;
}

TEST(CudaDeviceTest, PinsMemoryWhileThePinIsKept) {
  const auto device = make_cuda_device();
  const auto memory = pages();
  std::memset(memory.get(), 7, 2 * kPinPage);
  PinMemory pinner = device->pinner();
  auto pin = pinner({memory.get(), 2 * kPinPage});
  ASSERT_NE(pin, nullptr);
  EXPECT_TRUE(known_to_driver(memory.get() + kPinPage));
  EXPECT_EQ(pinner({memory.get(), 2 * kPinPage}), nullptr) << "the driver refuses a second pin";

  const Buffer there = device->allocate(2 * kPinPage);
  device->compute().copy(there.data(), memory.get(), there.bytes());
  wait(device->compute().mark());
  std::vector<std::byte> back(there.bytes());
  device->compute().copy_now(back.data(), there.data(), back.size());
  EXPECT_EQ(std::memcmp(back.data(), memory.get(), back.size()), 0);

  pin.reset();
  EXPECT_FALSE(known_to_driver(memory.get()));
  EXPECT_NE(pinner({memory.get(), 2 * kPinPage}), nullptr);
}

}  // namespace
}  // namespace kith::kernels

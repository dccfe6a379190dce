#pragma once

#include <map>
#include <span>
#include <vector>

#include "kith/kernels/cuda/device.h"
#include "tests/kernels/memory.h"

namespace kith::kernels {

// Host spans mirrored on the current GPU, each in an allocation of its own, so that a checker sees every
// access past an end.
class DeviceMemory final : public Memory {
 public:
  std::byte* enter(std::span<std::byte> bytes) override {
    if (const auto found = mirrors_.find(bytes.data()); found != mirrors_.end())
      return found->second.device.get();
    Mirror mirror{bytes, cuda::allocate(bytes.size())};
    copy(mirror.device.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
    return mirrors_.emplace(bytes.data(), std::move(mirror)).first->second.device.get();
  }

  void leave() override {
    cuda::require(cudaDeviceSynchronize(), "the GPU's work");
    for (const auto& [host, mirror] : mirrors_)
      copy(host, mirror.device.get(), mirror.host.size(), cudaMemcpyDeviceToHost);
    mirrors_.clear();
  }

 private:
  struct Mirror {
    std::span<std::byte> host;
    std::shared_ptr<std::byte> device;
  };

  static void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    cuda::require(cudaMemcpy(to, from, bytes, kind), "copying test data");
  }

  std::map<std::byte*, Mirror> mirrors_;
};

// A vector's elements on the GPU; back() brings them home.
template <class E>
class OnGpu {
 public:
  explicit OnGpu(const std::vector<E>& values)
      : count_(values.size()), memory_(cuda::allocate(count_ * sizeof(E))) {
    cuda::require(cudaMemcpy(memory_.get(), values.data(), count_ * sizeof(E), cudaMemcpyHostToDevice),
                  "test data");
  }

  E* data() const { return reinterpret_cast<E*>(memory_.get()); }
  std::size_t size() const { return count_; }
  std::vector<E> back() const {
    std::vector<E> values(count_);
    cuda::require(cudaMemcpy(values.data(), data(), count_ * sizeof(E), cudaMemcpyDeviceToHost),
                  "test results");
    return values;
  }

 private:
  std::size_t count_;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace kith::kernels

#include <cstring>
#include <new>

#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/kernels/device.h"

namespace kith::kernels {
namespace {

constexpr std::align_val_t kAlignment{64};

class HostQueue final : public Queue {
 public:
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void copy_now(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void zero(void* to, std::size_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
  }
  Mark mark() override { return nullptr; }
  void after(const Mark&) override {}
  std::unique_ptr<Kernels<float>> kernels_f32() override { return make_cpu_kernels<float>(); }
  std::unique_ptr<Kernels<double>> kernels_f64() override { return make_cpu_kernels<double>(); }
  std::unique_ptr<CodecKernels<float>> codec_f32(std::string_view codec) override {
    return make_host_codec_kernels<float>(codec);
  }
  std::unique_ptr<CodecKernels<double>> codec_f64(std::string_view codec) override {
    return make_host_codec_kernels<double>(codec);
  }
};

// Without state, so one serves everybody.
class HostDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }
  bool host() const override { return true; }

  Buffer allocate(std::size_t bytes) override {
    if (bytes == 0) return {};
    auto* const data = static_cast<std::byte*>(::operator new(bytes, kAlignment));
    std::memset(data, 0, bytes);
    return {{data, [](std::byte* block) { ::operator delete(block, kAlignment); }}, bytes};
  }
  Buffer allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  PinMemory pinner() const override { return {}; }

  Queue& compute() override { return queue_; }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<HostQueue>(); }

 private:
  HostQueue queue_;
};

}  // namespace

Device& host_device() {
  static HostDevice device;
  return device;
}

}  // namespace kith::kernels

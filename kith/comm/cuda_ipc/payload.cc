#include "kith/comm/cuda_ipc/payload.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/shm/segment.h"
#include "kith/kernels/cuda/device.h"

namespace kith::comm::cuda_ipc {
namespace {

using kernels::cuda::OnDevice;
using kernels::cuda::require;
using shm::Descriptor;
using shm::Payload;
using shm::Segment;
using shm::Sharing;

constexpr std::uint64_t kMagic = 0x6370692d6475636bULL;  // "kcud-ipc"
// The driver shares whole pages of this size; what lies beside a smaller allocation would be shared with it.
constexpr std::size_t kPage = std::size_t{2} << 20;

// What a peer needs to map the memory; it lies in host memory that both see.
struct Exported {
  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;
  cudaIpcMemHandle_t handle{};
  std::atomic<std::uint32_t> users{0};  // peers that have it mapped
};

// Memory of one's own. While a peer has it mapped it may not be freed: what is still in use when its owner is
// done with it stays until the process ends.
class Own {
 public:
  Own(int device, const std::string& label, std::size_t bytes)
      : exported_memory_(Segment::create(label, sizeof(Exported), Sharing::read_write)) {
    const OnDevice here(device);
    const std::string place = cat("GPU memory '", label, "'");
    const std::size_t whole = (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
    require(cudaMalloc(&data_, whole), place);
    exported_ = new (exported_memory_.data()) Exported;
    exported_->bytes = bytes;
    try {
      require(cudaIpcGetMemHandle(&exported_->handle, data_), place);
      require(cudaMemset(data_, 0, whole), place);
      require(cudaDeviceSynchronize(), place);
    } catch (...) {
      cudaFree(data_);
      throw;
    }
  }
  ~Own() {
    if (exported_->users.load() == 0) cudaFree(data_);
  }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  Descriptor take_descriptor() { return exported_memory_.take_descriptor(); }

 private:
  Segment exported_memory_;
  Exported* exported_ = nullptr;
  void* data_ = nullptr;
};

// A payload in host memory cannot be mapped as exported memory is, so one looks before.
Segment map_exported(const Descriptor& descriptor, std::size_t bytes, const std::string& place) {
  const Segment seen = Segment::map(descriptor, sizeof(Exported), Sharing::read_only, place);
  const auto* const exported = reinterpret_cast<const Exported*>(seen.data());
  if (exported->magic != kMagic || exported->bytes != bytes) {
    throw InputError("the peer's window does not lie in GPU memory", place,
                     "use the same backend on every worker");
  }
  return Segment::map(descriptor, sizeof(Exported), Sharing::read_write, place);
}

class Mapped {
 public:
  Mapped(int device, const Descriptor& descriptor, std::size_t bytes, const std::string& place)
      : exported_memory_(map_exported(descriptor, bytes, place)),
        exported_(reinterpret_cast<Exported*>(exported_memory_.data())) {
    const OnDevice here(device);
    ++exported_->users;
    const cudaError_t status =
        cudaIpcOpenMemHandle(&data_, exported_->handle, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) --exported_->users;
    require(status, place);
  }
  ~Mapped() {
    cudaIpcCloseMemHandle(data_);
    --exported_->users;
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  const Segment exported_memory_;
  Exported* const exported_;
  void* data_ = nullptr;
};

class DevicePayloads final : public shm::PayloadMemory {
 public:
  explicit DevicePayloads(int device) : device_(device) { const OnDevice usable(device); }

  Payload create(const std::string& label, std::size_t bytes) override {
    auto made = std::make_shared<Own>(device_, label, bytes);
    return {made->data(), made, made->take_descriptor()};
  }

  Payload map(const Descriptor& descriptor, std::size_t bytes, const std::string& place) override {
    auto mapped = std::make_shared<Mapped>(device_, descriptor, bytes, place);
    return {mapped->data(), mapped};
  }

 private:
  const int device_;
};

}  // namespace

std::unique_ptr<shm::PayloadMemory> device_payloads(int device) {
  return std::make_unique<DevicePayloads>(device);
}

}  // namespace kith::comm::cuda_ipc

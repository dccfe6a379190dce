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

// What travels.
struct Ticket {
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
      : ticket_memory_(Segment::create(label, sizeof(Ticket), Sharing::read_write)) {
    const OnDevice here(device);
    const std::string place = cat("GPU memory '", label, "'");
    const std::size_t whole = (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
    require(cudaMalloc(&data_, whole), place);
    ticket_ = new (ticket_memory_.data()) Ticket;
    ticket_->bytes = bytes;
    try {
      require(cudaIpcGetMemHandle(&ticket_->handle, data_), place);
      require(cudaMemset(data_, 0, whole), place);
      require(cudaDeviceSynchronize(), place);
    } catch (...) {
      cudaFree(data_);
      throw;
    }
  }
  ~Own() {
    if (ticket_->users.load() == 0) cudaFree(data_);
  }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  Descriptor take_descriptor() { return ticket_memory_.take_descriptor(); }

 private:
  Segment ticket_memory_;
  Ticket* ticket_ = nullptr;
  void* data_ = nullptr;
};

// A payload in host memory cannot be mapped as tickets are, so one looks before.
Segment map_ticket(const Descriptor& descriptor, std::size_t bytes, const std::string& place) {
  const Segment seen = Segment::map(descriptor, sizeof(Ticket), Sharing::read_only, place);
  const auto* const ticket = reinterpret_cast<const Ticket*>(seen.data());
  if (ticket->magic != kMagic || ticket->bytes != bytes) {
    throw InputError("the peer's window does not lie in GPU memory", place,
                     "use the same backend on every worker");
  }
  return Segment::map(descriptor, sizeof(Ticket), Sharing::read_write, place);
}

class Mapped {
 public:
  Mapped(int device, const Descriptor& descriptor, std::size_t bytes, const std::string& place)
      : ticket_memory_(map_ticket(descriptor, bytes, place)),
        ticket_(reinterpret_cast<Ticket*>(ticket_memory_.data())) {
    const OnDevice here(device);
    ++ticket_->users;
    const cudaError_t status = cudaIpcOpenMemHandle(&data_, ticket_->handle, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) --ticket_->users;
    require(status, place);
  }
  ~Mapped() {
    cudaIpcCloseMemHandle(data_);
    --ticket_->users;
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  const Segment ticket_memory_;
  Ticket* const ticket_;
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

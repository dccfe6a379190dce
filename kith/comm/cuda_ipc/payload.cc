#include "kith/comm/cuda_ipc/payload.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kith/base/text.h"
#include "kith/comm/cuda_ipc/exported.h"
#include "kith/kernels/cuda/device.h"

namespace kith::comm::cuda_ipc {
namespace {

using shm::Descriptor;
using shm::Payload;

std::string named(const std::vector<std::string>& labels) {
  const std::string first = cat("GPU memory '", labels.front(), "'");
  return labels.size() == 1 ? first : cat(first, " and ", labels.size() - 1, " more");
}

class DevicePayloads final : public shm::PayloadMemory {
 public:
  explicit DevicePayloads(const DevicePayloadOptions& options) : options_(options) {
    const kernels::cuda::OnDevice usable(options.device);
  }

  ~DevicePayloads() override {
    const Deadline start = SteadyClock().now();
    auto left = retired_->sweep_until(start + std::min(options_.long_wait, options_.patience));
    if (left.empty()) return;
    log(LogLevel::info, cat("waits until no other process reads ", named(left)));
    left = retired_->sweep_until(start + options_.patience);
    if (left.empty()) return;
    log(LogLevel::warning, cat("another process still reads ", named(left), " after ",
                               seconds(options_.patience), " s; it ends with this process"));
  }

  Payload create(const std::string& label, std::size_t bytes) override {
    retired_->sweep();
    auto made = std::make_unique<Exported>(options_.device, label, bytes);
    std::byte* const data = made->data();
    Descriptor descriptor = made->take_descriptor();
    std::shared_ptr<const void> memory(made.release(), [retired = retired_](Exported* done) {
      retired->add(std::unique_ptr<Exported>(done));
    });
    return {data, std::move(memory), std::move(descriptor)};
  }

  Payload map(const Descriptor& descriptor, std::size_t bytes, const std::string& place) override {
    auto mapped = std::make_shared<Mapped>(options_.device, descriptor, bytes, place);
    return {mapped->data(), mapped};
  }

 private:
  void log(LogLevel level, const std::string& line) const {
    if (options_.log != nullptr) options_.log->write(level, line);
  }

  const DevicePayloadOptions options_;
  const std::shared_ptr<Retired> retired_ = std::make_shared<Retired>();
};

}  // namespace

std::unique_ptr<shm::PayloadMemory> device_payloads(const DevicePayloadOptions& options) {
  return std::make_unique<DevicePayloads>(options);
}

}  // namespace kith::comm::cuda_ipc

#include "kith/comm/shm/transport.h"

#include <utility>

#include "kith/base/check.h"
#include "kith/base/text.h"
#include "kith/comm/mapped/window.h"

namespace kith::comm {

ShmTransport::ShmTransport(const TransportOptions& options) : ShmTransport(options, "shm", nullptr) {}

ShmTransport::ShmTransport(const TransportOptions& options, std::string_view backend,
                           std::unique_ptr<shm::PayloadMemory> device_payloads)
    : backend_(backend),
      host_payloads_(shm::host_payloads()),
      device_payloads_(std::move(device_payloads)),
      context_(
          std::make_shared<mapped::Context>(options.self, options.workers, options.log, options.long_wait)),
      machine_(*context_, *options.store, shm::Life::watching(options.plain_futexes)) {
  if (options.losses == nullptr) return;
  losses_ = options.losses->listen([this](WorkerId worker) {
    const int index = context_->index_of(worker);
    if (index >= 0 && worker != self()) machine_.heed_end(index);
  });
}

std::unique_ptr<Window> ShmTransport::open(const WindowOptions& asked, Deadline deadline) {
  WindowOptions options = mapped::checked(asked, *context_);
  const bool on_device = options.memory == WindowMemory::device;
  KITH_CHECK(!on_device || device_windows(), cat("window '", options.name, "' in device memory"));
  shm::PayloadMemory& payloads = on_device ? *device_payloads_ : *host_payloads_;
  const shm::OwnMemory own = shm::make_memory(options, *context_, payloads);
  auto peers = machine_.open(options, own, context_->indices_of(options.peers), payloads, deadline);
  return std::make_unique<mapped::MappedWindow>(context_, std::move(options), own.block, std::move(peers));
}

bool ShmTransport::lost(WorkerId peer) const {
  const int index = context_->index_of(peer);
  KITH_CHECK(index >= 0, cat(peer, " is not a worker of this transport"));
  return context_->liveness().lost(index);
}

std::string shm_obstacle() {
  return shm::Life::obstacle();
}

}  // namespace kith::comm

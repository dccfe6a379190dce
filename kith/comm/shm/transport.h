#pragma once

#include <memory>
#include <string>

#include "kith/comm/mapped/context.h"
#include "kith/comm/registry.h"
#include "kith/comm/shm/machine.h"
#include "kith/comm/shm/payload.h"
#include "kith/comm/transport.h"

namespace kith::comm {

// Workers that are processes of one machine and one user: windows are sealed memfd segments, the payload
// mapped read-only by everybody but its owner. A worker is lost when its process ends or its transport is
// destroyed; peers know within milliseconds (Note [Life]).
class ShmTransport final : public Transport {
 public:
  // REQUIRES: options.store. Error when the kernel lacks what is needed.
  explicit ShmTransport(const TransportOptions& options);
  // The same with windows that may lie in device memory; `backend` outlives the transport.
  ShmTransport(const TransportOptions& options, std::string_view backend,
               std::unique_ptr<shm::PayloadMemory> device_payloads);

  std::string_view backend() const override { return backend_; }
  WorkerId self() const override { return context_->self(); }
  const std::vector<WorkerId>& workers() const override { return context_->workers(); }
  const std::vector<int>& machines() const override { return context_->machines(); }
  bool device_windows() const override { return device_payloads_ != nullptr; }
  std::unique_ptr<Window> open(const WindowOptions& options, Deadline deadline) override;
  bool lost(WorkerId peer) const override;
  Ledger ledger() const override { return context_->ledger(); }

 private:
  const std::string_view backend_;
  const std::unique_ptr<shm::PayloadMemory> host_payloads_;
  const std::unique_ptr<shm::PayloadMemory> device_payloads_;  // null: none
  const std::shared_ptr<mapped::Context> context_;
  shm::Machine machine_;
  std::shared_ptr<const void> losses_;  // who tells of them calls into what is above
};

// Empty when the backend works here, else what is missing.
std::string shm_obstacle();

}  // namespace kith::comm

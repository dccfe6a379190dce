#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "kith/comm/mapped/context.h"
#include "kith/comm/registry.h"
#include "kith/comm/shm/life.h"
#include "kith/comm/shm/meeting.h"
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
  // The same with the payloads elsewhere; `backend` outlives the transport.
  ShmTransport(const TransportOptions& options, std::string_view backend,
               std::unique_ptr<shm::PayloadMemory> payloads);

  std::string_view backend() const override { return backend_; }
  WorkerId self() const override { return context_->self(); }
  const std::vector<WorkerId>& workers() const override { return context_->workers(); }
  std::unique_ptr<Window> open(const WindowOptions& options, Deadline deadline) override;
  bool lost(WorkerId peer) const override;
  Ledger ledger() const override { return context_->ledger(); }

 private:
  void report_lost(int worker, bool died);

  const std::string_view backend_;
  const std::unique_ptr<shm::PayloadMemory> payloads_;
  const std::shared_ptr<mapped::Context> context_;
  shm::Life life_;
  std::mutex open_mutex_;  // guards meeting_: windows are opened one after the other
  shm::Meeting meeting_;
};

// Empty when the backend works here, else what is missing.
std::string shm_obstacle();

}  // namespace kith::comm

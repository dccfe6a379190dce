#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kith/comm/mapped/context.h"
#include "kith/comm/registry.h"
#include "kith/comm/shm/machine.h"
#include "kith/comm/transport.h"
#include "kith/comm/ucx/driver.h"

namespace kith::comm {

// Workers on several machines: each window's memory is mapped by those of its writer's machine and sent over
// UCX to the others. Who shares a machine is found out through the store.
class RoutedTransport final : public Transport {
 public:
  // "ucx": over the network also within a machine. "routed": shared memory within a machine.
  enum class Route { ucx, routed };

  // Waits for every worker at the store. REQUIRES: options.store. Error when one does not come, or UCX cannot
  // start.
  RoutedTransport(const TransportOptions& options, Route route);
  ~RoutedTransport() override;
  RoutedTransport(const RoutedTransport&) = delete;
  RoutedTransport& operator=(const RoutedTransport&) = delete;

  std::string_view backend() const override { return route_ == Route::ucx ? "ucx" : "routed"; }
  WorkerId self() const override { return context_->self(); }
  const std::vector<WorkerId>& workers() const override { return context_->workers(); }
  const std::vector<int>& machines() const override { return context_->machines(); }
  std::unique_ptr<Window> open(const WindowOptions& options, Deadline deadline) override;
  bool lost(WorkerId peer) const override;
  Ledger ledger() const override { return context_->ledger(); }

 private:
  bool mapped(int worker) const;
  void heed_end(WorkerId worker);

  const Route route_;
  const std::unique_ptr<shm::PayloadMemory> payloads_ = shm::host_payloads();
  std::shared_ptr<mapped::Context> context_;
  std::optional<shm::Machine> machine_;  // where somebody shares it
  std::shared_ptr<ucx::Driver> driver_;  // where somebody is elsewhere
  std::shared_ptr<const void> losses_;   // who tells of them calls into what is above
};

}  // namespace kith::comm

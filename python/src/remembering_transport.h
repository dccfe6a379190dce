#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kith/comm/transport.h"
#include "python/src/waits.h"

namespace kith::python {

// A transport that remembers who can end the waits of its windows. Safe from any thread.
class RememberingTransport final : public comm::Transport {
 public:
  RememberingTransport(std::shared_ptr<comm::Transport> inner, std::shared_ptr<Waits> waits)
      : inner_(std::move(inner)), waits_(std::move(waits)) {}

  std::string_view backend() const override { return inner_->backend(); }
  WorkerId self() const override { return inner_->self(); }
  const std::vector<WorkerId>& workers() const override { return inner_->workers(); }
  const std::vector<int>& machines() const override { return inner_->machines(); }
  bool device_windows() const override { return inner_->device_windows(); }
  std::unique_ptr<comm::Window> open(const comm::WindowOptions& options, Deadline deadline) override {
    if (options.cancellation) waits_->remember(options.cancellation);
    return inner_->open(options, deadline);
  }
  bool lost(WorkerId peer) const override { return inner_->lost(peer); }
  comm::Ledger ledger() const override { return inner_->ledger(); }

 private:
  const std::shared_ptr<comm::Transport> inner_;
  const std::shared_ptr<Waits> waits_;
};

}  // namespace kith::python

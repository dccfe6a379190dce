#pragma once

#include <memory>

#include "kith/comm/inproc/world.h"

namespace kith::comm {

// Workers that are threads of one process: windows are heap
// memory, and a worker is lost when its transport is destroyed.
class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<InprocWorld> world, std::shared_ptr<mapped::Context> context);
  ~InprocTransport() override;
  InprocTransport(const InprocTransport&) = delete;
  InprocTransport& operator=(const InprocTransport&) = delete;

  std::string_view backend() const override { return "inproc"; }
  WorkerId self() const override { return context_->self(); }
  const std::vector<WorkerId>& workers() const override { return context_->workers(); }
  const std::vector<int>& machines() const override { return context_->machines(); }
  std::unique_ptr<Window> open(const WindowOptions& options, Deadline deadline) override;
  bool lost(WorkerId peer) const override;
  Ledger ledger() const override { return context_->ledger(); }

 private:
  const std::shared_ptr<InprocWorld> world_;
  const std::shared_ptr<mapped::Context> context_;
};

}  // namespace kith::comm

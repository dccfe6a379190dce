#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kith/comm/transport.h"

namespace kith::comm {

// A transport whose windows stop waiting together: for whoever opens windows, waits in several threads, and
// must be able to end at any moment. The transport behind it, and windows opened there otherwise, go on.
class CancellableTransport final : public Transport {
 public:
  // `inner` outlives it.
  explicit CancellableTransport(Transport& inner) : inner_(inner) {}

  // Ends the waits of every window opened here, and every opening, for good (Cancellation).
  void cancel() { cancellation_->cancel(); }
  const std::shared_ptr<Cancellation>& cancellation() const { return cancellation_; }

  std::string_view backend() const override { return inner_.backend(); }
  WorkerId self() const override { return inner_.self(); }
  const std::vector<WorkerId>& workers() const override { return inner_.workers(); }
  const std::vector<int>& machines() const override { return inner_.machines(); }
  bool device_windows() const override { return inner_.device_windows(); }
  // REQUIRES: no cancellation in the options; they get this one's.
  std::unique_ptr<Window> open(const WindowOptions& options, Deadline deadline) override;
  bool lost(WorkerId peer) const override { return inner_.lost(peer); }
  Ledger ledger() const override { return inner_.ledger(); }

 private:
  Transport& inner_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
};

}  // namespace kith::comm

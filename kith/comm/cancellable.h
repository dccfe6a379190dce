#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kith/comm/transport.h"

namespace kith::comm {

// A transport whose windows stop waiting together: for whoever opens windows, waits in several threads, and
// must be able to end at any moment. The transport behind it, and windows opened there otherwise, go on.
// Windows get names that begin with `prefix`: whoever opens the same windows twice tells them apart by it.
class CancellableTransport final : public Transport {
 public:
  // `inner` outlives it. `cancellation`: another owner's, which ends these waits too.
  explicit CancellableTransport(Transport& inner, std::string prefix = "",
                                std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>())
      : inner_(inner), prefix_(std::move(prefix)), cancellation_(std::move(cancellation)) {}

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
  const std::string prefix_;
  const std::shared_ptr<Cancellation> cancellation_;
};

}  // namespace kith::comm

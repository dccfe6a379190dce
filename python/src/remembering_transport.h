#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "kith/comm/transport.h"

namespace kith::python {

// A transport that remembers who can end the waits of its windows, to end them all. Safe from any thread.
class RememberingTransport final : public comm::Transport {
 public:
  // `inner` outlives it.
  explicit RememberingTransport(comm::Transport& inner) : inner_(inner) {}

  // Ends the waits of every window opened here that has a cancellation, and every opening of such a one.
  void cancel();

  std::string_view backend() const override { return inner_.backend(); }
  WorkerId self() const override { return inner_.self(); }
  const std::vector<WorkerId>& workers() const override { return inner_.workers(); }
  const std::vector<int>& machines() const override { return inner_.machines(); }
  bool device_windows() const override { return inner_.device_windows(); }
  std::unique_ptr<comm::Window> open(const comm::WindowOptions& options, Deadline deadline) override;
  bool lost(WorkerId peer) const override { return inner_.lost(peer); }
  comm::Ledger ledger() const override { return inner_.ledger(); }

 private:
  comm::Transport& inner_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::weak_ptr<comm::Cancellation>> owners_;
  bool cancelled_ = false;
};

}  // namespace kith::python

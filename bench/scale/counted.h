#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kith/comm/transport.h"

namespace kith::bench {

// A network that the counted workers are thought to have: each sends one message after the other.
struct Wire {
  double latency_s = 50e-6;
  double bytes_per_s = 1.25e9;
};

// What one worker has done so far.
struct Counted {
  int windows = 0;
  std::map<WorkerId, int> peers = {};  // with whom it shares windows, and how many
  std::uint64_t messages = 0;          // sent: a version to a reader
  std::uint64_t bytes = 0;
  // When it would have come so far on such a wire, had computing taken no time: every message carries its
  // sender's time, so it is the length of the longest chain of messages that leads here.
  double time_s = 0;
};

// A transport that counts what goes through another one. One thread uses it.
class CountedTransport final : public comm::Transport {
 public:
  // `inner` outlives it.
  CountedTransport(comm::Transport& inner, const Wire& wire) : inner_(inner), wire_(wire) {}

  const Counted& counted() const { return counted_; }

  std::string_view backend() const override { return inner_.backend(); }
  WorkerId self() const override { return inner_.self(); }
  const std::vector<WorkerId>& workers() const override { return inner_.workers(); }
  const std::vector<int>& machines() const override { return inner_.machines(); }
  std::unique_ptr<comm::Window> open(const comm::WindowOptions& options, Deadline deadline) override;
  bool lost(WorkerId peer) const override { return inner_.lost(peer); }
  comm::Ledger ledger() const override { return inner_.ledger(); }

 private:
  class CountedWindow;

  comm::Transport& inner_;
  const Wire wire_;
  Counted counted_;
};

struct CountedStart {
  double windows = 0;  // of a worker, the mean
  int most_peers = 0;
  double messages = 0;
  std::uint64_t most_bytes = 0;  // that a worker sends
  double time_s = 0;             // of the last worker
};

// Starts engines among so many threads of this process: windows, and the first model.
CountedStart count_start(int workers, const std::string& topology, int parameters, const Wire& wire);

}  // namespace kith::bench

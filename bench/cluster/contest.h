#pragma once

#include <string>
#include <vector>

#include "bench/cluster/lab.h"
#include "bench/common/lap.h"
#include "bench/common/peer_process.h"
#include "bench/common/problem.h"
#include "kith/base/temp_folder.h"
#include "kith/graph/shape.h"

namespace kith::bench {

// A number of hosts and workers, and what they train.
struct Setup {
  std::string size;  // of the problem: "small", "large"
  Problem problem;
  int hosts = 4;
  int workers_per_host = 1;

  int workers() const { return hosts * workers_per_host; }
  graph::Shape shape() const;  // the placement, and what schedules see
  std::string name() const;    // "small_4x1"
};

// Whether a mode is PyTorch's: "torch" alone, or DDP: "ddp", "ddp-fp16", "ddp-powersgd".
bool of_pytorch(const std::string& mode);

struct ContestOptions {
  std::string transport = "routed";
  std::string trace = "-";  // a folder; "-": none
};

// One block of steps of one mode, all workers together.
struct Block {
  Lap lap;
  int steps = 0;            // timed ones
  double sent = 0;          // bytes per host and iteration, mean over the hosts, from the interfaces
  double from_ledgers = 0;  // the same from kith's ledgers: payload only; 0 for DDP
  double in_kernel = 0;     // of the machine's processors while the block ran, as shares
  double idle = 0;

  double ms() const { return lap.seconds / steps * 1e3; }
};

// All workers of all modes on the hosts of a lab. They live through the run and take turns, so that whatever
// else the machine does falls on everybody.
class Contest {
 public:
  Contest(const Setup& setup, const ContestOptions& options);

  HostLab& lab() { return lab_; }

  // Some steps of a mode: one of PyTorch's, or one of kith's (bench/common/contestant.h). Untimed steps
  // first, because a decentralised step waits for what was published in the step before, and a block begins
  // with nothing under way. Returns when nothing is under way.
  Block run(const std::string& mode, int untimed, int timed);

  // Lets the workers leave in order and joins their traces. Without it they end with their hosts.
  void finish();

 private:
  std::vector<std::string> environment_of(int rank) const;

  const Setup setup_;
  const std::string trace_;
  TempFolder folder_{"kith-cluster"};
  std::vector<PeerProcess> kith_;
  std::vector<PeerProcess> ddp_;
  // Ends before the workers do: a host takes its workers with it, also those that wait for one that failed.
  HostLab lab_;
};

}  // namespace kith::bench

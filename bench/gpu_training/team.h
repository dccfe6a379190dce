#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/common/lap.h"
#include "bench/common/peer_process.h"
#include "bench/gpu_training/job.h"
#include "kith/base/clock.h"
#include "kith/base/temp_folder.h"

namespace kith::bench {

// The processes of one contestant. What they are asked is answered before the deadline; who does not answer
// is killed together with the others, and the call throws Error.
class Team {
 public:
  // kith's workers: this program again.
  static Team kith(int workers, const GpuJob& job, Deadline deadline);
  // `script` of this folder, as one process or as the workers of a group.
  static Team python(const std::string& script, int workers, const GpuJob& job, Deadline deadline);
  Team(Team&&) = default;

  // In rank order.
  std::vector<std::string> ask(const std::string& order);
  Lap run(const std::string& order);
  // The number after the first word of worker 0's answer.
  double number(const std::string& order);

 private:
  Team(std::vector<std::string> program, int workers, const GpuJob& job, Deadline deadline);
  std::vector<std::string> answers();

  std::string name_;
  Deadline deadline_;
  std::unique_ptr<TempFolder> folder_;
  std::vector<PeerProcess> peers_;
};

}  // namespace kith::bench

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/crew.h"
#include "cli/launch_output.h"
#include "cli/scale_requests.h"
#include "cli/supervisor.h"
#include "kith/base/log.h"
#include "kith/launch/environment.h"
#include "kith/launch/meeting_point.h"

namespace kith::cli {

struct LocalLaunchOptions {
  int workers = 1;
  std::optional<Elastic> elastic = {};
  std::vector<std::string> command;
  launch::Environment environment = {};  // for every worker, besides its place
  launch::MeetingPoint store;            // where they meet
  std::string secret;                    // of the run
  std::string left_files;                // a folder of the launcher's own
  SupervisorOptions supervision = {};
};

// The workers of `kith launch` on this machine, from the first to the last. With `elastic` newcomers take the
// places of those that die, and `kith scale` changes how many there are. One thread.
class LocalLaunch {
 public:
  explicit LocalLaunch(LocalLaunchOptions options);

  // Until all have ended; the exit code.
  int run();

 private:
  void start(int worker, int place);

  const LocalLaunchOptions options_;
  StderrLog log_{"kith launch"};
  LaunchOutput output_;
  Supervisor supervisor_;
  Crew crew_;
  std::unique_ptr<ScaleClerk> clerk_;
};

}  // namespace kith::cli

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/newcomers.h"
#include "cli/supervisor.h"
#include "kith/launch/environment.h"
#include "kith/launch/meeting_point.h"

namespace kith::cli {

// One machine of `--hosts a:2,b:2`.
struct LaunchHost {
  std::string name;  // as ssh takes it: "node1", "user@10.0.0.1"
  int workers = 1;
  // Without "user@": where the others reach it.
  std::string address() const { return name.substr(name.find('@') + 1); }
};

// InputError naming --hosts.
std::vector<LaunchHost> parse_hosts(std::string_view text);

struct HostsLaunch {
  std::vector<LaunchHost> hosts;
  std::vector<std::string> command;
  std::string ssh;  // words separated by spaces
  // HOST:PORT: the first host serves the store there, apart from its workers. Else as KITH_STORE.
  launch::MeetingPoint store;
  std::string secret;
  launch::Environment environment;  // for the workers
  // Newcomers take the places of those that die, on the same machine as long as it is there.
  std::optional<Elastic> elastic = {};
  SupervisorOptions supervision = {};
};

// Runs the command on the hosts over ssh, in the same working folder, and returns the exit code. On each host
// `kith launch --agent` (this very program, at the same path) hears over ssh's standard input what to do, the
// secret among it, and ends its workers when ssh ends. With `elastic` newcomers for the workers of a machine
// whose ssh has ended come to the others; kith scale asks through the first machine.
int launch_on_hosts(const HostsLaunch& launch);

// The other end: what `kith launch --agent` does. Returns the exit code.
int run_agent();

}  // namespace kith::cli

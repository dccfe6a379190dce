#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/launch_hosts.h"
#include "cli/launch_output.h"
#include "cli/local_workers.h"
#include "cli/room.h"
#include "cli/run.h"
#include "cli/supervisor.h"
#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/comm/net/address.h"
#include "kith/launch/environment.h"
#include "kith/launch/secret.h"

namespace kith::cli {
namespace {

struct LaunchFlags {
  std::optional<int> workers;
  std::string hosts;
  std::string ssh = "ssh -o BatchMode=yes";
  std::string store;
  std::string interface;
  std::vector<std::string> environment;
  bool agent = false;
};

// The secret of this run: the user's own, or a fresh one.
std::string run_secret(const launch::Environment& environment) {
  const auto file = environment.find("KITH_SECRET_FILE");
  return file == environment.end() ? launch::make_secret()
                                   : launch::read_secret(file->second, "KITH_SECRET_FILE");
}

// What --env and --interface ask for.
launch::Environment asked_environment(const LaunchFlags& flags, const launch::Environment& own) {
  launch::Environment asked;
  for (const std::string& entry : flags.environment) {
    const auto equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    const auto found = own.find(name);
    if (name.empty() || (equals == std::string::npos && found == own.end())) {
      throw InputError(cat("'", entry, "' is not set here"), "--env",
                       "NAME=VALUE, or the NAME of a variable");
    }
    asked[name] = equals == std::string::npos ? found->second : entry.substr(equals + 1);
  }
  if (!flags.interface.empty()) asked["KITH_INTERFACE"] = flags.interface;
  return asked;
}

// What goes along to other machines without being asked for.
launch::Environment travelling(const launch::Environment& own) {
  launch::Environment chosen;
  for (const auto& [name, value] : own) {
    const bool goes = name == "PATH" || name == "LD_LIBRARY_PATH" || name == "PYTHONPATH" ||
                      name.starts_with("KITH_") || name.starts_with("UCX_") || name.starts_with("OMP_") ||
                      name.starts_with("CUDA_") || name.starts_with("NCCL_");
    if (goes) chosen[name] = value;
  }
  return chosen;
}

// A port that nothing usually listens on; two runs on one machine seldom draw the same, and then it is said.
std::uint16_t drawn_port() {
  const std::string bytes = random_bytes(2);
  const int number = static_cast<unsigned char>(bytes[0]) << 8 | static_cast<unsigned char>(bytes[1]);
  return static_cast<std::uint16_t>(20000 + number % 10000);
}

int launch_here(const LaunchFlags& flags, const std::vector<std::string>& command) {
  const launch::Environment own = launch::read_environment();
  const launch::Environment asked = asked_environment(flags, own);
  require_room(*flags.workers, {.files = 2}, room_here(), "--workers");  // its output and its errors
  const TempFolder folder("kith");
  const std::string secret_file = folder.path() + "/secret";
  launch::write_secret(secret_file, run_secret(own));
  LaunchOutput output;
  Supervisor supervisor;
  for (int worker = 0; worker < *flags.workers; ++worker) {
    ChildOptions child{.command = command,
                       .environment = local_environment(worker, *flags.workers, folder.path() + "/store")};
    child.environment.insert(asked.begin(), asked.end());
    child.environment["KITH_SECRET_FILE"] = secret_file;
    const std::string tag = std::to_string(worker);
    child.on_line = [&output, tag](Stream stream, std::string_view line) { output.line(tag, stream, line); };
    child.on_end = [&output, tag](const Ending& ending) { output.ended(cat("worker ", tag), tag, ending); };
    supervisor.start(std::move(child));
  }
  const int code = supervisor.wait();
  output.finish();
  return code;
}

int launch_there(const LaunchFlags& flags, const std::vector<std::string>& command) {
  const launch::Environment own = launch::read_environment();
  HostsLaunch launch{.hosts = parse_hosts(flags.hosts),
                     .command = command,
                     .ssh = flags.ssh,
                     .store = flags.store,
                     .secret = run_secret(own),
                     .environment = travelling(own)};
  for (const auto& [name, value] : asked_environment(flags, own))
    launch.environment[name] = value;
  if (launch.store.empty()) {
    const auto port = own.find("KITH_PORT");
    launch.store = comm::net::text_of(
        {launch.hosts.front().address(),
         port == own.end() ? drawn_port() : comm::net::parse_port(port->second, "KITH_PORT")});
  }
  return launch_on_hosts(launch);
}

int run_launch(const LaunchFlags& flags, const std::vector<std::string>& command) {
  outlive_readers();
  if (flags.agent) return run_agent();
  if (command.empty())
    throw InputError("there is no command to run", {}, "kith launch --workers 4 -- COMMAND");
  if (flags.workers.has_value() == !flags.hosts.empty()) {
    throw InputError(
        flags.workers ? "--workers and --hosts are both given" : "neither --workers nor --hosts is given", {},
        "--workers N for this machine, --hosts a:2,b:2 for several");
  }
  if (!flags.store.empty()) comm::net::parse_address(flags.store, "--store");
  return flags.workers ? launch_here(flags, command) : launch_there(flags, command);
}

}  // namespace

void add_launch(CLI::App& app) {
  auto flags = std::make_shared<LaunchFlags>();
  CLI::App* command =
      app.add_subcommand("launch", "Run a command as the workers of a world, here or over ssh");
  command->prefix_command();
  command->add_option("--workers", flags->workers, "how many workers, on this machine")
      ->check(CLI::Range(1, 4096));
  command->add_option("--hosts", flags->hosts, "machines and their workers, as node1:2,node2:2");
  command->add_option("--ssh", flags->ssh, "how to reach a host; words separated by spaces")
      ->capture_default_str();
  command->add_option("--store", flags->store,
                      "HOST:PORT of worker 0's store, with --hosts (default: the first host)");
  command->add_option("--interface", flags->interface, "network interface that the workers use");
  command->add_option("--env", flags->environment, "NAME or NAME=VALUE for the workers; repeatable")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_flag("--agent", flags->agent)->group("");
  command->footer("The command comes last: kith launch --workers 4 -- kith train job.toml");
  command->callback([flags, command] {
    if (const int code = run_launch(*flags, command->remaining())) throw ExitCode{code};
  });
}

}  // namespace kith::cli

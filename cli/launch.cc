#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/launch_hosts.h"
#include "cli/local_launch.h"
#include "cli/newcomers.h"
#include "cli/room.h"
#include "cli/run.h"
#include "cli/supervisor.h"
#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/comm/net/address.h"
#include "kith/launch/environment.h"
#include "kith/launch/meeting_point.h"
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
  std::optional<int> least;
  std::string elastic;
  std::optional<double> end_within_s;
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

SupervisorOptions supervision(const LaunchFlags& flags, int workers) {
  SupervisorOptions options;
  if (flags.least) {
    if (*flags.least > workers) {
      throw InputError(cat(*flags.least, " workers are to be left, of ", workers), "--least",
                       cat("a number from 1 to ", workers));
    }
    options.deaths = {.then = OnDeath::go_on, .least = *flags.least};
  }
  if (!flags.elastic.empty()) {
    const Elastic elastic = parse_elastic(flags.elastic);
    if (flags.least) throw InputError("is given too", "--least", "MIN of --elastic says the same");
    if (workers < elastic.least || workers > elastic.most)
      throw InputError(cat(workers, " workers, and --elastic ", flags.elastic),
                       flags.hosts.empty() ? "--workers" : "--hosts", "a number from MIN to MAX");
    options.deaths = {.then = OnDeath::go_on, .least = elastic.least};
  }
  if (flags.end_within_s)
    options.end_within = std::chrono::milliseconds(std::lround(1000 * *flags.end_within_s));
  return options;
}

int launch_here(const LaunchFlags& flags, const std::vector<std::string>& command) {
  const launch::Environment own = launch::read_environment();
  const launch::Environment asked = asked_environment(flags, own);
  const auto elastic = flags.elastic.empty() ? std::nullopt : std::optional(parse_elastic(flags.elastic));
  const int workers = flags.workers.value_or(elastic ? elastic->most : 1);
  require_room(workers, {.files = 2}, room_here(), "--workers");  // its output and its errors
  const TempFolder folder("kith");
  const std::string secret_file = folder.path() + "/secret";
  const std::string secret = run_secret(own);
  launch::write_secret(secret_file, secret);
  launch::Environment environment = asked;
  environment["KITH_SECRET_FILE"] = secret_file;
  const launch::MeetingPoint store = launch::with_run(
      launch::parse_meeting_point(flags.store.empty() ? folder.path() + "/store" : flags.store, "--store"));
  return LocalLaunch({.workers = workers,
                      .elastic = elastic,
                      .command = command,
                      .environment = environment,
                      .store = store,
                      .secret = secret,
                      .left_files = folder.path(),
                      .supervision = supervision(flags, workers)})
      .run();
}

int launch_there(const LaunchFlags& flags, const std::vector<std::string>& command) {
  const launch::Environment own = launch::read_environment();
  HostsLaunch launch;
  launch.hosts = parse_hosts(flags.hosts);
  launch.command = command;
  launch.ssh = flags.ssh;
  launch.secret = run_secret(own);
  launch.environment = travelling(own);
  int workers = 0;
  for (const LaunchHost& host : launch.hosts)
    workers += host.workers;
  launch.supervision = supervision(flags, workers);
  if (!flags.elastic.empty()) launch.elastic = parse_elastic(flags.elastic);
  for (const auto& [name, value] : asked_environment(flags, own))
    launch.environment[name] = value;
  if (!flags.store.empty()) {
    launch.store = launch::parse_meeting_point(flags.store, "--store");
  } else {
    const auto port = own.find("KITH_PORT");
    launch.store.address = {
        launch.hosts.front().address(),
        port == own.end() ? drawn_port() : comm::net::parse_port(port->second, "KITH_PORT")};
  }
  return launch_on_hosts(launch);
}

int run_launch(const LaunchFlags& flags, const std::vector<std::string>& command) {
  outlive_readers();
  if (flags.agent) return run_agent();
  if (command.empty())
    throw InputError("there is no command to run", {}, "kith launch --workers 4 -- COMMAND");
  const bool here = flags.workers.has_value() || (!flags.elastic.empty() && flags.hosts.empty());
  if (here == !flags.hosts.empty()) {
    throw InputError(
        flags.workers ? "--workers and --hosts are both given" : "neither --workers nor --hosts is given", {},
        "--workers N for this machine, --hosts a:2,b:2 for several");
  }
  if (!flags.store.empty() && here) {
    const launch::MeetingPoint store = launch::parse_meeting_point(flags.store, "--store");
    if (store.by_worker()) {
      throw InputError(cat("'", flags.store, "' is for --hosts: its first host serves the store there"),
                       "--store", "leave it out: workers of one machine meet in a folder");
    }
  }
  return here ? launch_here(flags, command) : launch_there(flags, command);
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
  command->add_option(
      "--store", flags->store,
      "where the workers meet: with --hosts HOST:PORT, served by the first host (the "
      "default); etcd://HOST:PORT,...; tcp://HOST:PORT that somebody serves; or a shared folder");
  command
      ->add_option("--least", flags->least,
                   "go on when workers die, while this many are left (default: all must live)")
      ->check(CLI::Range(1, 4096));
  command->add_option(
      "--elastic", flags->elastic,
      "MIN:MAX: a newcomer takes the place of a worker that dies, while MIN are left, and kith scale changes "
      "how many there are (default of --workers: MAX)");
  command
      ->add_option("--end-within", flags->end_within_s,
                   "seconds for the others to end once one has ended with 0 (default: as long again as they "
                   "have run, at least 600)")
      ->check(CLI::Range(0.0, 1e7));
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

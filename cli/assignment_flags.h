#pragma once

#include <CLI/CLI.hpp>

#include "kith/launch/assignment.h"

namespace kith::cli {

// --worker, --store and --interface; --workers is the command's own.
inline void add_assignment_flags(CLI::App& command, launch::AssignmentFlags& flags) {
  command.add_option("--worker", flags.worker, "which worker this process is, where no launcher tells");
  command.add_option(
      "--store", flags.store,
      "where the workers meet: HOST:PORT of worker 0, tcp://HOST:PORT, etcd://HOST:PORT,.../RUN, or a "
      "shared folder");
  command.add_option("--interface", flags.interface, "network interface to listen on and connect from");
}

}  // namespace kith::cli

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "cli/commands.h"
#include "cli/run.h"
#include "cli/version.h"

int main(int argc, char** argv) {
  CLI::App app("Decentralised training of neural networks, without a global barrier.", "kith");
  app.set_version_flag("--version", kith::cli::version_text());
  app.require_subcommand(0, 1);
  kith::cli::add_topo(app);
  kith::cli::add_mix(app);
  kith::cli::add_plan(app);
  kith::cli::add_training(app);
  app.footer("kith COMMAND --help says what a command takes.");

  const int code = kith::cli::run(app, argc, argv);
  if (code == 0 && (std::fflush(stdout) != 0 || !std::cout.flush())) {
    std::cerr << "kith: cannot write to standard output\n";
    return kith::cli::kFailed;
  }
  return code;
}

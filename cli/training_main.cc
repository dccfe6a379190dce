// The commands that need LibTorch: Note [Two programs] in cli/training.h.

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/run.h"

int main(int argc, char** argv) {
  CLI::App app("Decentralised training of neural networks, without a global barrier.", "kith");
  app.require_subcommand(0, 1);
  kith::cli::add_demo(app);
  kith::cli::add_train(app);
  kith::cli::add_profile(app);
  kith::cli::add_study(app);
  kith::cli::add_data(app);
  return kith::cli::run_and_flush(app, argc, argv);
}

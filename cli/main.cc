#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/run.h"
#include "cli/training.h"
#include "cli/version.h"
#include "kith/base/error.h"

namespace {

// kith launch takes the first word that is no flag of its own, and all that follow, as the command to run; a
// "--" before it is the user's good style, and CLI11 would hand the rest to the outermost command.
std::vector<const char*> words_of(int argc, char** argv) {
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && std::string_view(argv[1]) == "launch") {
    const auto dashes = std::ranges::find(words, std::string_view("--"));
    if (dashes != words.end()) words.erase(dashes);
  }
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    kith::cli::hand_on_training(argc, argv);
  } catch (const kith::Error& error) {
    std::cerr << "kith " << argv[1] << ": " << error.what() << "\n";
    return kith::cli::kFailed;
  }
  CLI::App app("Decentralised training of neural networks, without a global barrier.", "kith");
  app.set_version_flag("--version", kith::cli::version_text());
  app.require_subcommand(0, 1);
  kith::cli::add_topo(app);
  kith::cli::add_methods(app);
  kith::cli::add_mix(app);
  kith::cli::add_plan(app);
  kith::cli::add_training(app);
  kith::cli::add_watch(app);
  kith::cli::add_report(app);
  kith::cli::add_compare(app);
  kith::cli::add_launch(app);
  kith::cli::add_scale(app);
  kith::cli::add_env(app);
  app.footer("kith COMMAND --help says what a command takes.");

  const std::vector<const char*> words = words_of(argc, argv);
  return kith::cli::run_and_flush(app, static_cast<int>(words.size()), words.data());
}

#pragma once

#include <CLI/CLI.hpp>

namespace kith::cli {

// Each subcommand lives in a file of its own and adds itself to the app. A command reports bad input by throwing
// InputError (exit 2) and other failures by throwing Error (exit 1); main prints them.
void add_topo(CLI::App& app);
void add_mix(CLI::App& app);
void add_plan(CLI::App& app);

}  // namespace kith::cli

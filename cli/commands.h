#pragma once

#include <CLI/CLI.hpp>

namespace kith::cli {

// Each subcommand lives in a file of its own and adds itself to the app. A command reports bad input by
// throwing InputError (exit 2) and other failures by throwing Error (exit 1); main prints them.
void add_topo(CLI::App& app);
void add_mix(CLI::App& app);
void add_train(CLI::App& app);
void add_demo(CLI::App& app);
void add_data(CLI::App& app);
void add_profile(CLI::App& app);
void add_study(CLI::App& app);
void add_study_methods(CLI::App& group);  // of `kith study`
// The names of add_demo, add_train, add_profile, add_study and add_data for the help of the program that does
// not have them (cli/training.h), or a word of explanation where LibTorch was left out of the build.
void add_training(CLI::App& app);
void add_methods(CLI::App& app);
void add_plan(CLI::App& app);
void add_env(CLI::App& app);
void add_launch(CLI::App& app);
void add_scale(CLI::App& app);
void add_watch(CLI::App& app);
void add_report(CLI::App& app);
void add_compare(CLI::App& app);

}  // namespace kith::cli

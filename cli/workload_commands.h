#pragma once

#include <CLI/CLI.hpp>

namespace kith::cli {

// Commands around a trained model, as those of commands.h.
void add_sample(CLI::App& app);
void add_translate(CLI::App& app);
void add_export(CLI::App& app);

}  // namespace kith::cli

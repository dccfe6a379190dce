#pragma once

#include <CLI/CLI.hpp>

namespace kith::cli {

// kith data tokens, kith data pairs.
void add_data_tokens(CLI::App& data);
void add_data_pairs(CLI::App& data);

}  // namespace kith::cli

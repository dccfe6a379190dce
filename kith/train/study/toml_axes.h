#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "kith/train/study/design.h"

namespace kith::train::study {

// A table of a study file, as far as it holds keys of a configuration: `rate.lr = [1e-3, 2e-3]` and
// `[common.rate]` with `lr = ...` are the same. In the order of the file. InputError for a key that `kith
// train` has not, an empty list, a value twice, something that is no value. `skip`: an entry that is
// something else. (Tables are never copied here: a copy has forgotten its lines.)
std::vector<Axis> axes_of(const toml::table& table, const std::filesystem::path& file,
                          std::string_view skip = {});

// Whole numbers, each once. InputError otherwise.
std::vector<std::int64_t> integers_of(const toml::node& node, const std::string& place);

// "study.toml:12".
std::string place_of(const toml::node& node, const std::filesystem::path& file);

// The entries of a table as the file has them.
std::vector<std::pair<std::string, const toml::node*>> in_order(const toml::table& table);

}  // namespace kith::train::study

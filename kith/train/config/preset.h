#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kith::train {

// What a preset says about a key, as `kith train --set` takes it.
struct PresetValue {
  std::string_view key;
  std::string_view text;
};

// "none", then the presets.
std::vector<std::string> preset_names();

// REQUIRES: one of the names.
std::span<const PresetValue> preset_values(std::string_view preset);

}  // namespace kith::train

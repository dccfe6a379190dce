#pragma once

#include <filesystem>

namespace kith::train {

// The text that comes with kith, for a program at `program`: PREFIX/share/kith/text beside PREFIX/bin when
// installed, the source tree's own otherwise. InputError when there is neither.
std::filesystem::path shipped_text(const std::filesystem::path& program);

}  // namespace kith::train

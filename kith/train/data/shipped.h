#pragma once

#include <filesystem>

namespace kith::train {

// A file that comes with kith, such as "text/austen.txt", for a program at `program`: PREFIX/share/kith
// beside PREFIX/bin when installed, the source tree's own otherwise. InputError when there is neither.
std::filesystem::path shipped_file(const std::filesystem::path& program, const std::filesystem::path& name);

// The text among them.
std::filesystem::path shipped_text(const std::filesystem::path& program);

}  // namespace kith::train

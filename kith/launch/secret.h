#pragma once

#include <filesystem>
#include <string>

namespace kith::launch {

// A fresh run secret: 32 random bytes in hexadecimal.
std::string make_secret();

// The secret in a file, without white space at its end. InputError naming `place` when the file is missing,
// empty, longer than 4096 bytes, not a plain file of this user (or root), or open to others (any mode above
// 0700).
std::string read_secret(const std::filesystem::path& file, const std::string& place);

// Writes it to a new file that only this user can read. Error when the file exists or cannot be written.
void write_secret(const std::filesystem::path& file, const std::string& secret);

}  // namespace kith::launch

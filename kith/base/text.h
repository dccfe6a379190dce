#pragma once

#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace kith {

// Concatenates anything that can be streamed. For messages, not for hot paths.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// "a, b, c".
std::string join(std::span<const std::string> parts, std::string_view separator = ", ");
std::vector<std::string> split(std::string_view text, char separator);

// The candidate nearest to `word` in edit distance, or empty when none is near enough to be a typo of it.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// "did you mean 'x'?", or "one of: a, b, c" when nothing is near.
std::string suggest(std::string_view word, std::span<const std::string> candidates);

// "25MB", "4KiB", "17" -> bytes. K, M, G are powers of 1000; Ki, Mi, Gi of 1024. Throws InputError naming
// `place`.
std::int64_t parse_bytes(std::string_view text, std::string_view place);

// 26214400 -> "25.0 MiB".
std::string human_bytes(double bytes);

}  // namespace kith

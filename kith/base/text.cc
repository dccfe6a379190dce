#include "kith/base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/shortened.h"

namespace kith {
namespace {

// Letters left out, added, changed, or swapped with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

constexpr std::size_t kLongestWord = 100;  // nobody means a name by more

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array<Unit, 11> kUnits{{{"", 1},
                                       {"b", 1},
                                       {"k", 1e3},
                                       {"kb", 1e3},
                                       {"kib", 1024.0},
                                       {"m", 1e6},
                                       {"mb", 1e6},
                                       {"mib", 1048576.0},
                                       {"g", 1e9},
                                       {"gb", 1e9},
                                       {"gib", 1073741824.0}}};

}  // namespace

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += separator;
    out += part;
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  const std::size_t tail = most / 4;
  return cat(text.substr(0, most - tail), "... (", text.size(), " characters) ...",
             text.substr(text.size() - tail));
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  if (word.size() > kLongestWord) return best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggest(std::string_view word, std::span<const std::string> candidates) {
  const std::string near = nearest(word, candidates);
  if (!near.empty()) return "did you mean '" + near + "'?";
  return "one of: " + join(candidates);
}

std::int64_t parse_bytes(std::string_view text, std::string_view place) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto found =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == unit; });
  const bool good = status == std::errc{} && found != kUnits.end() && std::isfinite(number) && number >= 0 &&
                    number * found->bytes < 9e18;
  if (!good) throw InputError(cat("'", text, "' is not a size"), place, "for example 25MB, 4KiB or 1000");
  return std::llround(number * found->bytes);
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kNames.size(); ++unit)
    bytes /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kNames[unit]);
  return text.data();
}

}  // namespace kith

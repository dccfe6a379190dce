#include "kith/plan/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::plan {
namespace {

struct Unit {
  std::string_view name;
  double value;
};

constexpr std::array<Unit, 4> kTimes{{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
constexpr std::array<Unit, 9> kRates{{{"kbit", 125},
                                      {"mbit", 125e3},
                                      {"gbit", 125e6},
                                      {"kb/s", 1e3},
                                      {"mb/s", 1e6},
                                      {"gb/s", 1e9},
                                      {"tb/s", 1e12},
                                      {"mib/s", 1048576.0},
                                      {"gib/s", 1073741824.0}}};

double parse(std::string_view text, std::span<const Unit> units, std::string_view what,
             std::string_view place) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(status == std::errc{} ? end : text.data(), text.data() + text.size());
  std::erase(unit, ' ');
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  if (unit.ends_with("bit/s")) unit.resize(unit.size() - 2);
  std::vector<std::string> names;
  for (const Unit& u : units) {
    names.emplace_back(u.name);
    if (u.name != unit || status != std::errc{}) continue;
    if (!std::isfinite(number) || number < 0)
      throw InputError(cat("'", text, "' is not a ", what), place, "it must be finite and not negative");
    return number * u.value;
  }
  throw InputError(cat("'", text, "' is not a ", what), place, cat("a number and a unit: ", join(names)));
}

std::string with_unit(double value, const char* unit) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.3g %s", value, unit);
  return text.data();
}

}  // namespace

double parse_seconds(std::string_view text, std::string_view place) {
  return parse(text, kTimes, "duration", place);
}

double parse_bytes_per_s(std::string_view text, std::string_view place) {
  return parse(text, kRates, "bandwidth", place);
}

std::string human_seconds(double seconds) {
  if (seconds >= 1) return with_unit(seconds, "s");
  if (seconds >= 1e-3) return with_unit(seconds * 1e3, "ms");
  return with_unit(seconds * 1e6, "us");
}

std::string human_rate(double bytes_per_s) {
  const double bits = bytes_per_s * 8;
  if (bits >= 1e12) return with_unit(bits / 1e12, "Tbit/s");
  if (bits >= 1e9) return with_unit(bits / 1e9, "Gbit/s");
  return with_unit(bits / 1e6, "Mbit/s");
}

}  // namespace kith::plan

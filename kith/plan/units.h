#pragma once

#include <string>
#include <string_view>

namespace kith::plan {

// "3.1ms", "20us", "1.5 s", "80ns" -> seconds. InputError naming `place` when there is no unit, an unknown
// one, or a number that is negative or not finite (here and below).
double parse_seconds(std::string_view text, std::string_view place);

// "25gbit", "100 Gbit/s" in bits; "12GB/s", "3.2 GiB/s" in bytes -> bytes per second.
double parse_bytes_per_s(std::string_view text, std::string_view place);

// 0.0031 -> "3.1 ms".
std::string human_seconds(double seconds);
// 3.125e9 -> "25 Gbit/s".
std::string human_rate(double bytes_per_s);

}  // namespace kith::plan

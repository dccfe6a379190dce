#include "kith/launch/nodelist.h"

#include <charconv>
#include <cstdint>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::launch {
namespace {

constexpr std::uint64_t kMostNodes = 1 << 20;

class Malformed {
 public:
  Malformed(std::string_view list, std::string_view place) : list_(list), place_(place) {}
  [[noreturn]] void operator()(std::string_view why) const {
    throw InputError(cat("'", list_, "' ", why), place_, "Slurm sets it; unset it to run without Slurm");
  }

 private:
  std::string_view list_;
  std::string_view place_;
};

std::uint64_t number(std::string_view text, const Malformed& malformed) {
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size() || value > kMostNodes)
    malformed(cat("has '", text, "' where a number belongs"));
  return value;
}

// "1-3,07" -> 1 2 3 07; numbers keep the width of the first.
std::vector<std::string> expand_ranges(std::string_view ranges, const Malformed& malformed) {
  std::vector<std::string> numbers;
  for (const std::string& range : split(ranges, ',')) {
    const auto dash = range.find('-');
    const std::string first = range.substr(0, dash);
    const std::uint64_t low = number(first, malformed);
    const std::uint64_t high = dash == std::string::npos ? low : number(range.substr(dash + 1), malformed);
    if (high < low || high - low > kMostNodes) malformed(cat("has the range '", range, "'"));
    for (std::uint64_t n = low; n <= high; ++n) {
      const std::string digits = std::to_string(n);
      numbers.push_back(std::string(first.size() > digits.size() ? first.size() - digits.size() : 0, '0') +
                        digits);
    }
  }
  return numbers;
}

// Splits at the commas outside brackets.
std::vector<std::string> split_names(std::string_view list, const Malformed& malformed) {
  std::vector<std::string> names(1);
  int depth = 0;
  for (const char c : list) {
    depth += (c == '[') - (c == ']');
    if (depth < 0 || depth > 1) malformed("has brackets that do not match");
    if (c == ',' && depth == 0) {
      names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  if (depth != 0) malformed("has brackets that do not match");
  return names;
}

void expand_name(const std::string& prefix, std::string_view rest, const Malformed& malformed,
                 std::vector<std::string>& nodes) {
  const auto open = rest.find('[');
  if (open == std::string_view::npos) {
    if (prefix.empty() && rest.empty()) malformed("has an empty name");
    nodes.push_back(prefix + std::string(rest));
    if (nodes.size() > kMostNodes) malformed("has too many nodes");
    return;
  }
  const auto close = rest.find(']');
  const std::string head = prefix + std::string(rest.substr(0, open));
  for (const std::string& n : expand_ranges(rest.substr(open + 1, close - open - 1), malformed))
    expand_name(head + n, rest.substr(close + 1), malformed, nodes);
}

}  // namespace

std::vector<std::string> expand_nodelist(std::string_view list, std::string_view place) {
  const Malformed malformed(list, place);
  std::vector<std::string> nodes;
  for (const std::string& name : split_names(list, malformed))
    expand_name({}, name, malformed, nodes);
  return nodes;
}

std::vector<int> expand_tasks_per_node(std::string_view list, std::string_view place) {
  const Malformed malformed(list, place);
  std::vector<int> tasks;
  for (const std::string& part : split(list, ',')) {
    const auto open = part.find("(x");
    std::uint64_t times = 1;
    if (open != std::string::npos) {
      if (part.back() != ')') malformed("lacks a ')'");
      times = number(std::string_view(part).substr(open + 2, part.size() - open - 3), malformed);
    }
    const std::uint64_t count = number(std::string_view(part).substr(0, open), malformed);
    if (tasks.size() + times > kMostNodes) malformed("has too many nodes");
    tasks.insert(tasks.end(), times, static_cast<int>(count));
  }
  return tasks;
}

}  // namespace kith::launch

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "kith/base/check.h"
#include "kith/base/text.h"
#include "kith/train/config/schema.h"

namespace kith::train {
namespace {

std::string_view section_of(std::string_view name) {
  return name.substr(0, name.find('.'));
}

}  // namespace

std::string describe_type(const Key& key) {
  static constexpr std::array<std::string_view, 4> kTypes{"true or false", "integer", "number", "text"};
  Job job;
  if (key.choices) return cat("one of: ", join(key.choices()));
  switch (key.text) {
    case TextKind::plain:
      break;
    case TextKind::path:
      return "path";
    case TextKind::bytes:
      return "size, such as 25MiB";
    case TextKind::shape:
      return "node sizes, such as 2,2 or 2x2";
  }
  const std::string_view type = kTypes[key.field(job).index()];
  return key.interval.empty() ? std::string(type) : cat(type, " in ", key.interval);
}

bool inside(std::string_view interval, double value) {
  if (interval.empty()) return true;
  const auto comma = interval.find(',');
  KITH_CHECK(comma != std::string_view::npos, "an interval such as [0, 1)");
  const double low = std::strtod(std::string(interval.substr(1, comma - 1)).c_str(), nullptr);
  const double high = std::strtod(std::string(interval.substr(comma + 1)).c_str(), nullptr);
  const bool above = interval.front() == '[' ? value >= low : value > low;
  const bool below = interval.back() == ']' ? value <= high : value < high;
  return above && below;
}

std::string toml_text(const Field& field) {
  struct Text {
    std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
    std::string operator()(const std::int64_t* value) const { return std::to_string(*value); }
    std::string operator()(const double* value) const {
      std::array<char, 32> digits{};
      const auto end =
          std::to_chars(digits.begin(), digits.end(), *value).ptr;  // the shortest that reads back
      std::string text(digits.begin(), end);
      // TOML tells numbers with a fraction from integers by their look.
      if (text.find_first_of(".e") == std::string::npos) text += ".0";
      return text;
    }
    std::string operator()(const std::string* value) const {
      std::string text = "\"";
      for (const char c : *value) {
        if (static_cast<unsigned char>(c) < 0x20) {
          std::array<char, 8> escape{};
          std::snprintf(escape.data(), escape.size(), "\\u%04X", static_cast<unsigned>(c));
          text += escape.data();
          continue;
        }
        if (c == '"' || c == '\\') text += '\\';
        text += c;
      }
      return text + "\"";
    }
  };
  return std::visit(Text{}, field);
}

std::string print_config(const Job& job) {
  Job copy = job;
  std::ostringstream out;
  std::string_view section;
  for (const Key& key : schema()) {
    const std::string_view in = section_of(key.name);
    if (in != section) {
      out << (section.empty() ? "" : "\n") << "[" << in << "]\n";
      section = in;
    }
    out << "# " << key.doc << " (" << describe_type(key) << ")\n"
        << key.name.substr(in.size() + 1) << " = " << toml_text(key.field(copy)) << "\n";
  }
  return out.str();
}

std::string config_table() {
  Job defaults;
  std::string out = "| key | meaning | value | default |\n|---|---|---|---|\n";
  for (const Key& key : schema()) {
    out += cat("| `", key.name, "` | ", key.doc, " | ", describe_type(key), " | `",
               toml_text(key.field(defaults)), "` |\n");
  }
  return out;
}

}  // namespace kith::train

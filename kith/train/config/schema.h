#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kith/train/config/job.h"

namespace kith::train {

// The member of a job that a key stands for; its type is the type of the key.
using Field = std::variant<bool*, std::int64_t*, double*, std::string*>;

// What a text stands for; checked when it is read.
enum class TextKind : std::uint8_t { plain, path, bytes, shape };

struct Key {
  std::string_view name;  // "section.key"
  Field (*field)(Job& job);
  std::string_view doc;                             // one sentence
  std::string_view interval = {};                   // numbers: "[0, 1)", "(0, inf)"; empty: anything
  std::vector<std::string> (*choices)() = nullptr;  // texts: what is allowed
  TextKind text = TextKind::plain;
  bool free_on_resume = false;  // may differ when a run goes on
};

// Every key of a configuration, section by section, in the order in which it is printed. The one place that
// knows them.
std::span<const Key> schema();

// Null when there is no such key.
const Key* find_key(std::string_view name);
std::vector<std::string> key_names();

// "integer in [1, 4096]", "one of: a, b".
std::string describe_type(const Key& key);

// Whether a number lies in an interval such as "[0, 1)". REQUIRES: well formed, or empty.
bool inside(std::string_view interval, double value);

// The value as TOML text.
std::string toml_text(const Field& field);

// A whole configuration as TOML, each key with its documentation above it. What read_job reads gives the same
// job.
std::string print_config(const Job& job);

// All keys as a Markdown table, with types and defaults: the reference in docs/kith-train.md.
std::string config_table();

}  // namespace kith::train

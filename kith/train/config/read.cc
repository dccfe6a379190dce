#include "kith/train/config/read.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include <toml++/toml.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/config/preset.h"
#include "kith/train/config/renamed.h"
#include "kith/train/config/schema.h"

namespace kith::train {
namespace {

std::string type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

std::string shown(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>) {
      out << value.get();
    } else {
      out << type_name(node);
    }
  });
  return out.str();
}

// Where a value is written, and what its relative paths count from.
struct Source {
  std::string place;  // "job.toml:12", "--set"
  std::filesystem::path folder;
};

// Stores one value in its field.
class Assign {
 public:
  Assign(const Key& key, const toml::node& node, const Source& source)
      : key_(key), node_(node), source_(source) {}

  void operator()(bool* to) const { *to = take<bool>(node_.is_boolean()); }
  void operator()(std::int64_t* to) const {
    const auto value = take<std::int64_t>(node_.is_integer());
    check_range(static_cast<double>(value));
    *to = value;
  }
  void operator()(double* to) const {
    const auto value = take<double>(node_.is_number());
    check_range(value);
    *to = value;
  }
  void operator()(std::string* to) const {
    const auto value = take<std::string>(node_.is_string());
    *to = checked_text(value);
  }

 private:
  std::string place() const { return cat(source_.place, ": ", key_.name); }

  template <class T>
  T take(bool fits) const {
    if (!fits) {
      throw InputError(cat("'", shown(node_), "' is ", type_name(node_)), place(),
                       cat("wanted: ", describe_type(key_)));
    }
    return *node_.value<T>();
  }

  void check_range(double value) const {
    if (!inside(key_.interval, value)) {
      throw InputError(cat(value, " is out of range"), place(), cat("wanted: ", describe_type(key_)));
    }
  }

  std::string checked_text(const std::string& value) const {
    if (key_.choices) {
      const std::vector<std::string> choices = key_.choices();
      if (std::ranges::find(choices, value) == choices.end()) {
        if (const std::string now = renamed_value(key_.name, value); !now.empty())
          throw InputError(cat("'", value, "' has another name now"), place(), cat("write \"", now, "\""));
        throw InputError(cat("'", value, "' is not known"), place(), suggest(value, choices));
      }
    }
    if (value.empty()) return value;
    if (key_.text == TextKind::bytes) parse_bytes(value, place());
    if (key_.text == TextKind::shape) graph::Shape::parse(value, place());
    if (key_.text == TextKind::path) return (source_.folder / value).lexically_normal().string();
    return value;
  }

  const Key& key_;
  const toml::node& node_;
  const Source& source_;
};

const Key& known_key(const std::string& name, const std::string& place) {
  if (const Key* key = find_key(name)) return *key;
  if (const std::string now = renamed_key(name); !now.empty())
    throw InputError("this key has another name now", cat(place, ": ", name), cat("write ", now));
  throw InputError("there is no such key", cat(place, ": ", name), suggest(name, key_names()));
}

void assign(ReadJob& read, const std::string& name, const toml::node& node, const Source& source) {
  const Key& key = known_key(name, source.place);
  std::visit(Assign(key, node, source), key.field(read.job));
  read.origins[name] = source.place;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const std::string& key : key_names()) {
    const std::string section = key.substr(0, key.find('.'));
    if (names.empty() || names.back() != section) names.push_back(section);
  }
  return names;
}

void read_file(ReadJob& read, const std::string& file) {
  const auto place = [&](const toml::source_region& region) { return cat(file, ":", region.begin.line); };
  std::error_code problem;
  if (!std::filesystem::is_regular_file(file, problem)) {
    throw InputError("no such file", file, "kith train --print-config prints one to start from");
  }
  toml::table table;
  try {
    table = toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    throw InputError(cat("not TOML: ", error.description()), place(error.source()));
  }
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  const std::vector<std::string> sections = section_names();
  for (const auto& [section, entries] : table) {
    const std::string name(section.str());
    const std::string at = place(entries.source());
    if (const std::string now = renamed_section(name); !now.empty() && entries.is_table()) {
      for (const auto& [key, node] : *entries.as_table())
        known_key(cat(name, ".", key.str()), place(node.source()));
      throw InputError("this section has another name now", cat(at, ": ", name), cat("write [", now, "]"));
    }
    if (std::ranges::find(sections, name) == sections.end()) {
      throw InputError("there is no such section", cat(at, ": ", name), suggest(name, sections));
    }
    if (!entries.is_table()) {
      throw InputError(cat("is ", type_name(entries)), cat(at, ": ", name),
                       cat("wanted: a section, [", name, "]"));
    }
    for (const auto& [key, node] : *entries.as_table())
      assign(read, cat(name, ".", key.str()), node, {place(node.source()), folder});
  }
}

// The key of "a.b=value".
std::string key_of(const Setting& setting) {
  const auto equals = setting.text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError(cat("'", setting.text, "' is not KEY=VALUE"), setting.place,
                     "for example optimizer.beta1=0.95");
  }
  return setting.text.substr(0, equals);
}

void apply(ReadJob& read, const Setting& setting) {
  const std::string name = key_of(setting);
  const Key& key = known_key(name, setting.place);
  const std::string text = setting.text.substr(name.size() + 1);
  const Source source{setting.place, std::filesystem::current_path()};
  // A shell has eaten the quotes of a text, so a text needs none here.
  if (std::holds_alternative<std::string*>(key.field(read.job)) && !text.starts_with('"')) {
    assign(read, name, toml::value<std::string>(text), source);
    return;
  }
  toml::table table;
  try {
    table = toml::parse(cat("value = ", text));
  } catch (const toml::parse_error&) {
    throw InputError(cat("'", text, "' is not a value"), cat(setting.place, ": ", name),
                     cat("wanted: ", describe_type(key)));
  }
  assign(read, name, *table.get("value"), source);
}

// What the preset says about keys that nobody set.
void apply_preset(ReadJob& read) {
  const std::string place = cat("model.preset = \"", read.job.model.preset, "\"");
  for (const PresetValue& value : preset_values(read.job.model.preset)) {
    if (!read.origins.contains(value.key)) apply(read, {cat(value.key, "=", value.text), place});
  }
}

}  // namespace

ReadJob read_job(const JobSources& sources) {
  ReadJob read;
  for (const Setting& setting : sources.defaults)
    apply(read, setting);
  if (!sources.file.empty()) read_file(read, sources.file);
  for (const Setting& setting : sources.settings)
    apply(read, setting);
  apply_preset(read);
  read.job.output.folder = std::filesystem::absolute(read.job.output.folder).string();
  check_combinations(read.job, read.origins);
  return read;
}

void check_resumable(const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    const std::string name = key_of(setting);
    if (known_key(name, setting.place).free_on_resume) continue;
    std::vector<std::string> names;
    for (const Key& key : schema()) {
      if (key.free_on_resume) names.emplace_back(key.name);
    }
    throw InputError("must stay as it was in a run that goes on", cat(setting.place, ": ", name),
                     cat("may change: ", join(names)));
  }
}

}  // namespace kith::train

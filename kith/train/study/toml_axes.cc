#include "kith/train/study/toml_axes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/config/schema.h"

namespace kith::train::study {
namespace {

std::string number_text(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string value_text(const toml::node& node, const Key& key, const std::string& place,
                       const std::filesystem::path& folder) {
  if (const auto* text = node.as_string()) {
    return key.text == TextKind::path && !text->get().empty()
               ? (folder / text->get()).lexically_normal().string()
               : text->get();
  }
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return number_text(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  throw InputError("is neither a value nor a list of values", cat(place, ": ", key.name),
                   cat("wanted: ", describe_type(key)));
}

Axis axis_of(const std::string& name, const toml::node& node, const std::filesystem::path& file) {
  const std::string place = place_of(node, file);
  const Key* const key = find_key(name);
  if (key == nullptr)
    throw InputError("there is no such key", cat(place, ": ", name), suggest(name, key_names()));
  Axis axis{.key = name, .values = {}, .place = place};
  const auto add = [&](const toml::node& value) {
    axis.values.push_back(value_text(value, *key, place, std::filesystem::absolute(file).parent_path()));
    if (std::ranges::count(axis.values, axis.values.back()) > 1)
      throw InputError(cat("'", axis.values.back(), "' is there twice"), cat(place, ": ", name),
                       "every value once");
  };
  if (const auto* list = node.as_array()) {
    if (list->empty()) throw InputError("an empty list", cat(place, ": ", name), "give values");
    for (const toml::node& value : *list)
      add(value);
  } else {
    add(node);
  }
  return axis;
}

struct Leaf {
  std::string key;
  const toml::node* node;
};

void flatten(const std::string& prefix, const toml::table& table, std::vector<Leaf>& leaves) {
  for (const auto& [key, node] : table) {
    const std::string full = prefix.empty() ? std::string(key.str()) : cat(prefix, ".", key.str());
    if (const auto* inner = node.as_table()) {
      flatten(full, *inner, leaves);
    } else {
      leaves.push_back({full, &node});
    }
  }
}

std::pair<std::size_t, std::size_t> position(const toml::node* node) {
  return {node->source().begin.line, node->source().begin.column};
}

}  // namespace

std::string place_of(const toml::node& node, const std::filesystem::path& file) {
  return cat(file.string(), ":", node.source().begin.line);
}

std::vector<std::pair<std::string, const toml::node*>> in_order(const toml::table& table) {
  std::vector<std::pair<std::string, const toml::node*>> entries;
  for (const auto& [key, node] : table)
    entries.emplace_back(std::string(key.str()), &node);
  std::ranges::stable_sort(entries, {}, [](const auto& entry) { return position(entry.second); });
  return entries;
}

std::vector<Axis> axes_of(const toml::table& table, const std::filesystem::path& file,
                          std::string_view skip) {
  std::vector<Leaf> leaves;
  flatten("", table, leaves);
  std::ranges::stable_sort(leaves, {}, [](const Leaf& leaf) { return position(leaf.node); });
  std::vector<Axis> axes;
  for (const Leaf& leaf : leaves)
    if (skip.empty() || (leaf.key != skip && !leaf.key.starts_with(cat(skip, "."))))
      axes.push_back(axis_of(leaf.key, *leaf.node, file));
  return axes;
}

std::vector<std::int64_t> integers_of(const toml::node& node, const std::string& place) {
  std::vector<std::int64_t> numbers;
  const auto* list = node.as_array();
  if (list == nullptr || list->empty())
    throw InputError("is no list of whole numbers", place, "for example [1, 2, 3]");
  for (const toml::node& value : *list) {
    const auto* number = value.as_integer();
    if (number == nullptr || number->get() < 0)
      throw InputError("is no list of whole numbers", place, "for example [1, 2, 3]");
    if (std::ranges::count(numbers, number->get()) > 0)
      throw InputError(cat(number->get(), " is there twice"), place, "every seed once");
    numbers.push_back(number->get());
  }
  return numbers;
}

}  // namespace kith::train::study

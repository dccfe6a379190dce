#include "kith/launch/agreement.h"

#include <algorithm>
#include <map>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::launch {
namespace {

constexpr std::size_t kMostShown = 8;    // facts that differ
constexpr std::size_t kMostValue = 200;  // characters of a value

std::string shown(const std::string& value) {
  return value.size() <= kMostValue ? value : value.substr(0, kMostValue) + "...";
}

}  // namespace

std::string encode_facts(const std::vector<Fact>& facts) {
  std::string text;
  for (const auto& [name, value] : facts)
    text += cat(name.size(), ":", value.size(), ":", name, value);
  return text;
}

std::vector<Fact> decode_facts(const std::string& text) {
  std::vector<Fact> facts;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = text.find(':', at);
    const auto second = first == std::string::npos ? first : text.find(':', first + 1);
    if (second == std::string::npos) throw Error("a worker's facts are malformed", "store");
    const std::size_t name = std::strtoull(text.c_str() + at, nullptr, 10);
    const std::size_t value = std::strtoull(text.c_str() + first + 1, nullptr, 10);
    const std::size_t rest = text.size() - second - 1;
    if (name > rest || value > rest - name) throw Error("a worker's facts are cut short", "store");
    facts.push_back({text.substr(second + 1, name), text.substr(second + 1 + name, value)});
    at = second + 1 + name + value;
  }
  if (facts.empty()) throw Error("a worker's facts are empty", "store");
  return facts;
}

std::string name_workers(const std::vector<int>& workers) {
  if (workers.size() == 1) return cat("worker ", workers.front());
  if (workers.size() > 2 && workers.back() - workers.front() + 1 == static_cast<int>(workers.size()))
    return cat("workers ", workers.front(), " to ", workers.back());
  std::string text = "workers ";
  for (std::size_t i = 0; i < workers.size(); ++i)
    text += cat(i == 0 ? "" : i + 1 == workers.size() ? " and " : ", ", workers[i]);
  return text;
}

std::string differences(const std::vector<std::vector<Fact>>& facts) {
  std::vector<std::string> names;  // in the order in which they are told
  std::vector<std::map<std::string, std::string>> by_name;
  for (const std::vector<Fact>& own : facts) {
    auto& values = by_name.emplace_back();
    for (const auto& [name, value] : own) {
      values[name] = value;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  std::vector<std::string> found;
  for (const std::string& name : names) {
    std::vector<std::pair<std::string, std::vector<int>>> sides;
    for (std::size_t worker = 0; worker < by_name.size(); ++worker) {
      const auto entry = by_name[worker].find(name);
      const std::string value =
          entry == by_name[worker].end() ? "(absent)" : cat("'", shown(entry->second), "'");
      auto side = std::ranges::find(sides, value, &decltype(sides)::value_type::first);
      if (side == sides.end()) side = sides.insert(sides.end(), {value, {}});
      side->second.push_back(static_cast<int>(worker));
    }
    if (sides.size() < 2) continue;
    std::vector<std::string> parts;
    for (const auto& [value, workers] : sides)
      parts.push_back(cat(value, " on ", name_workers(workers)));
    found.push_back(cat(name, " is ", kith::join(parts)));
  }
  if (found.size() > kMostShown) {
    const std::size_t more = found.size() - kMostShown;
    found.resize(kMostShown);
    found.push_back(cat("and ", more, " more"));
  }
  return kith::join(found, "; ");
}

}  // namespace kith::launch

#include <algorithm>

#include "kith/train/config/schema.h"

namespace kith::train {

const Key* find_key(std::string_view name) {
  const auto found = std::ranges::find(schema(), name, &Key::name);
  return found == schema().end() ? nullptr : &*found;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : schema())
    names.emplace_back(key.name);
  return names;
}

}  // namespace kith::train

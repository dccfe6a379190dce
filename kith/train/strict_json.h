#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kith::train {

// JSON that a stranger may have written, read so that whatever it holds ends in a value or in an InputError
// that names the field: `PLACE: FIELD ...`. Numbers are integers within bounds or refused; nothing is
// converted.

using Json = nlohmann::ordered_json;

// InputError when the text is no JSON, or nests deeper than `most_deep`.
Json parse_strictly(std::string_view text, const std::string& place, int most_deep = 8);

// A value and how messages name it.
class JsonField {
 public:
  JsonField(const Json& value, std::string name, std::string place)
      : value_(&value), name_(std::move(name)), place_(std::move(place)) {}

  // Of an object; InputError when it is none, or has no such key.
  JsonField at(const std::string& key) const;
  bool has(const std::string& key) const { return value_->is_object() && value_->contains(key); }
  // Of a list.
  std::size_t size() const;
  JsonField at(std::size_t index) const;

  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  std::string text() const;
  const Json& object() const;
  [[noreturn]] void refuse(const std::string& problem,
                           const char* remedy = "the file is damaged, or somebody has changed it") const;

 private:
  const Json* value_;
  std::string name_;
  std::string place_;
};

}  // namespace kith::train

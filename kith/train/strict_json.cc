#include "kith/train/strict_json.h"

#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {

Json parse_strictly(std::string_view text, const std::string& place, int most_deep) {
  // Thrown out of the parser, which itself does not recurse: no text is too deep for the stack.
  const auto look = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > most_deep)
      throw InputError(cat("nests deeper than ", most_deep, " levels"), place, "the file is damaged");
    return true;
  };
  try {
    return Json::parse(text, look);
  } catch (const nlohmann::json::exception&) {
    throw InputError("is no JSON", place, "the file is damaged");
  }
}

void JsonField::refuse(const std::string& problem, const char* remedy) const {
  throw InputError(cat(name_, " ", problem), place_, remedy);
}

const Json& JsonField::object() const {
  if (!value_->is_object()) refuse(cat("is ", value_->type_name(), ", wanted: object"));
  return *value_;
}

JsonField JsonField::at(const std::string& key) const {
  const Json& object = this->object();
  const auto found = object.find(key);
  const std::string name = name_.empty() ? key : cat(name_, ".", key);
  if (found == object.end()) JsonField(object, name, place_).refuse("is missing");
  return {*found, name, place_};
}

std::size_t JsonField::size() const {
  if (!value_->is_array()) refuse(cat("is ", value_->type_name(), ", wanted: array"));
  return value_->size();
}

JsonField JsonField::at(std::size_t index) const {
  if (index >= size()) refuse(cat("has ", size(), " entries, wanted: more than ", index));
  return {(*value_)[index], cat(name_, "[", index, "]"), place_};
}

std::int64_t JsonField::integer(std::int64_t least, std::int64_t most) const {
  // An unsigned number beyond the signed ones is no number between two signed ones.
  const bool fits = value_->is_number_integer() &&
                    (!value_->is_number_unsigned() || value_->get<std::uint64_t>() <= std::uint64_t{1} << 62);
  const std::int64_t value = fits ? value_->get<std::int64_t>() : 0;
  if (!fits || value < least || value > most) refuse(cat("is not an integer from ", least, " to ", most));
  return value;
}

std::string JsonField::text() const {
  if (!value_->is_string()) refuse(cat("is ", value_->type_name(), ", wanted: string"));
  return value_->get<std::string>();
}

}  // namespace kith::train

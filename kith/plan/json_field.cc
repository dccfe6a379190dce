#include "kith/plan/json_field.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::plan {

void JsonField::fail(std::string_view problem, std::string_view remedy) const {
  throw InputError(problem, place(), remedy);
}

bool JsonField::has(std::string_view key) const {
  return value_->is_object() && value_->contains(std::string(key));
}

bool JsonField::is_object() const {
  return value_->is_object();
}

JsonField JsonField::at(std::string_view key) const {
  if (!value_->is_object()) fail(cat(value_->type_name(), " where an object was expected"));
  const auto found = value_->find(std::string(key));
  const JsonField field(found == value_->end() ? *value_ : *found, file_, cat(path_, "/", key));
  if (found == value_->end()) field.fail("missing", "see docs/planning.md for the fields of a profile");
  return field;
}

JsonField JsonField::at(std::size_t index) const {
  return {value_->at(index), file_, cat(path_, "/", index)};
}

std::size_t JsonField::size() const {
  if (!value_->is_array()) fail(cat(value_->type_name(), " where an array was expected"));
  return value_->size();
}

std::string JsonField::text() const {
  if (!value_->is_string())
    fail(cat(value_->dump(), " is not a string"), "quantities are strings with a unit, as \"3.1ms\"");
  return value_->get<std::string>();
}

double JsonField::number() const {
  if (!value_->is_number()) fail(cat(value_->dump(), " is not a number"));
  const auto number = value_->get<double>();
  if (!std::isfinite(number)) fail(cat(number, " is not finite"));
  return number;
}

double JsonField::number_not_negative() const {
  if (number() < 0) fail(cat(number(), " is negative"));
  return number();
}

int JsonField::whole_number(int least) const {
  if (!value_->is_number_integer()) fail(cat(value_->dump(), " is not a whole number"));
  const auto number = value_->get<std::int64_t>();
  if (number < least || number > 100'000'000) fail(cat(number, " is out of range"), cat("at least ", least));
  return static_cast<int>(number);
}

void JsonField::allow_only(std::initializer_list<std::string_view> keys) const {
  if (!value_->is_object()) fail(cat(value_->type_name(), " where an object was expected"));
  const std::vector<std::string> known(keys.begin(), keys.end());
  for (const auto& [key, unused] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(cat("unknown field '", key, "'"), suggest(key, known));
  }
}

}  // namespace kith::plan

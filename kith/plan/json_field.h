#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace kith::plan {

// A value in a JSON document that knows its path, so that every complaint names it: "profile.json:
// /links/nic: ...". Refers to the document, which must outlive it.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string file, std::string path = "")
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  std::string place() const { return file_ + ": " + (path_.empty() ? "/" : path_); }
  const nlohmann::json& value() const { return *value_; }

  bool has(std::string_view key) const;
  bool is_object() const;
  // Each throws InputError with the path when the value is missing or of another kind.
  JsonField at(std::string_view key) const;
  JsonField at(std::size_t index) const;
  std::size_t size() const;  // of an array
  std::string text() const;
  double number() const;  // finite
  double number_not_negative() const;
  int whole_number(int least) const;

  // The value must be an object that has only these keys.
  void allow_only(std::initializer_list<std::string_view> keys) const;

  [[noreturn]] void fail(std::string_view problem, std::string_view remedy = {}) const;

 private:
  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
};

}  // namespace kith::plan

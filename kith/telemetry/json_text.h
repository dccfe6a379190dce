#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kith/base/clock.h"
#include "kith/telemetry/event.h"

namespace kith::telemetry {

// One JSON value at the end of `out`. A text is quoted; bytes of it that are not UTF-8 become U+FFFD. A
// number reads back as the same; those that JSON lacks (NaN, infinity) become null.
void append_json(std::string& out, std::string_view text);
void append_json(std::string& out, double number);
void append_json(std::string& out, std::int64_t number);
void append_json(std::string& out, std::uint64_t number);

// A JSON object at the end of a text, from construction to destruction. What every step records is written
// so, without a tree. Fields come in the order in which they are told, each name once; an object in it is
// `JsonObject inner(outer.key("name"))`, which ends before the next field.
class JsonObject {
 public:
  // `out` outlives it.
  explicit JsonObject(std::string& out) : out_(out) { out_ += '{'; }
  JsonObject(const JsonObject&) = delete;
  JsonObject& operator=(const JsonObject&) = delete;
  ~JsonObject() { out_ += '}'; }

  void field(std::string_view name, std::string_view text) { append_json(key(name), text); }
  void field(std::string_view name, const char* text) { append_json(key(name), std::string_view(text)); }
  void field(std::string_view name, std::floating_point auto number) {
    append_json(key(name), static_cast<double>(number));
  }
  void field(std::string_view name, std::signed_integral auto number) {
    append_json(key(name), static_cast<std::int64_t>(number));
  }
  void field(std::string_view name, std::unsigned_integral auto number) {
    append_json(key(name), static_cast<std::uint64_t>(number));
  }
  void field(std::string_view name, bool yes) { key(name) += yes ? "true" : "false"; }
  // In microseconds, to the nanosecond.
  void field(std::string_view name, Clock::Duration duration);

  void field(std::string_view name, const Args& args);
  void field(std::string_view name, const std::vector<std::pair<std::string, std::int64_t>>& numbers);

  // Begins a field. The caller appends one value to what it returns, the text.
  std::string& key(std::string_view name);

 private:
  std::string& out_;
  bool empty_ = true;
};

}  // namespace kith::telemetry

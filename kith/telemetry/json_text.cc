#include "kith/telemetry/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "kith/telemetry/json.h"

namespace kith::telemetry {
namespace {

// Stands in a JSON text as it is, whatever stands beside it.
bool is_plain(char c) {
  return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

template <class Number>
std::string_view digits(std::array<char, 32>& buffer, Number number) {
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  return {buffer.data(), static_cast<std::size_t>(end - buffer.data())};
}

template <class Number>
void append_digits(std::string& out, Number number) {
  std::array<char, 32> buffer;
  out += digits(buffer, number);
}

}  // namespace

void append_json(std::string& out, std::string_view text) {
  if (!std::all_of(text.begin(), text.end(), is_plain)) {
    out += text_of(Json(text));
    return;
  }
  out += '"';
  out += text;
  out += '"';
}

void append_json(std::string& out, std::int64_t number) {
  append_digits(out, number);
}

void append_json(std::string& out, std::uint64_t number) {
  append_digits(out, number);
}

void append_json(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  std::array<char, 32> buffer;
  const std::string_view written = digits(buffer, number);
  out += written;
  // Readers that tell integers from other numbers see that this is none.
  if (written.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void JsonObject::field(std::string_view name, Clock::Duration duration) {
  std::string& out = key(name);
  const std::int64_t ns = duration.count();
  const std::uint64_t size = ns < 0 ? -static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  if (ns < 0) out += '-';
  append_digits(out, size / 1000);
  out += '.';
  for (std::uint64_t rest = size % 1000, place = 100; place > 0; rest %= place, place /= 10)
    out += static_cast<char>('0' + rest / place);
}

void JsonObject::field(std::string_view name, const Args& args) {
  JsonObject object(key(name));
  for (const auto& [key, value] : args)
    std::visit([&, &k = key](const auto& v) { object.field(k, v); }, value);
}

void JsonObject::field(std::string_view name,
                       const std::vector<std::pair<std::string, std::int64_t>>& numbers) {
  JsonObject object(key(name));
  for (const auto& [key, number] : numbers)
    object.field(key, number);
}

std::string& JsonObject::key(std::string_view name) {
  if (!std::exchange(empty_, false)) out_ += ',';
  append_json(out_, name);
  out_ += ':';
  return out_;
}

}  // namespace kith::telemetry

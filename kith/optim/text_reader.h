#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::optim {

// Reads words and numbers off the front of a text; what does not fit is an InputError with `place` and
// `remedy`. All three outlive it.
class TextReader {
 public:
  TextReader(std::string_view text, std::string_view place, std::string_view remedy)
      : text_(text), place_(place), remedy_(remedy), rest_(text) {}

  bool ends() { return skip().empty(); }
  bool word(std::string_view expected) {
    if (!skip().starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  std::int64_t number(std::int64_t least) {
    const auto value = read<std::int64_t>();
    if (value < least) fail();
    return value;
  }
  // From 0 up, "inf" included.
  double real() {
    const auto value = read<double>();
    if (!(value >= 0)) fail();
    return value;
  }
  [[noreturn]] void fail() const { throw InputError(cat("'", text_, "' is no ", place_), place_, remedy_); }

 private:
  template <class Number>
  Number read() {
    Number value = 0;
    skip();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{}) fail();
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  std::string_view skip() {
    while (rest_.starts_with(' '))
      rest_.remove_prefix(1);
    return rest_;
  }

  const std::string_view text_, place_, remedy_;
  std::string_view rest_;
};

}  // namespace kith::optim

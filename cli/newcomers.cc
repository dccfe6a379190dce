#include "cli/newcomers.h"

#include <charconv>

#include "cli/run.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

constexpr auto kQuick = std::chrono::seconds(5);

}  // namespace

Elastic parse_elastic(std::string_view text) {
  Elastic elastic{0, 0};
  const auto colon = text.find(':');
  const auto number = [](std::string_view digits, int& value) {
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return status == std::errc{} && end == digits.data() + digits.size();
  };
  const bool good = colon != std::string_view::npos && number(text.substr(0, colon), elastic.least) &&
                    number(text.substr(colon + 1), elastic.most) && elastic.least >= 1 &&
                    elastic.least <= elastic.most;
  if (!good) throw InputError(cat("'", text, "' is not MIN:MAX"), "--elastic", "for example 3:8");
  return elastic;
}

std::optional<int> Newcomers::replace(int code, std::chrono::milliseconds lived) {
  quick_deaths_ = lived < kQuick ? quick_deaths_ + 1 : 0;
  if (code == kBadInput || given_up()) return std::nullopt;
  return next_++;
}

}  // namespace kith::cli

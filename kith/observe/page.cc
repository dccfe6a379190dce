#include "kith/observe/page.h"

#include <array>
#include <utility>

#include "kith/observe/embedded.h"

namespace kith::observe {
namespace {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string page(std::string_view title, std::string_view data, std::string_view nonce) {
  const std::string safe_title = escaped(title);
  const std::array<std::pair<std::string_view, std::string_view>, 5> parts{{{"@TITLE@", safe_title},
                                                                            {"@STYLE@", kStyle},
                                                                            {"@DATA@", data},
                                                                            {"@NONCE@", nonce},
                                                                            {"@SCRIPT@", kScript}}};
  std::string text;
  std::string_view rest = kPage;
  while (!rest.empty()) {
    std::size_t first = rest.size();
    const std::pair<std::string_view, std::string_view>* part = nullptr;
    for (const auto& candidate : parts) {
      const std::size_t at = rest.find(candidate.first);
      if (at < first) {
        first = at;
        part = &candidate;
      }
    }
    text += rest.substr(0, first);
    if (part == nullptr) break;
    text += part->second;
    rest.remove_prefix(first + part->first.size());
  }
  return text;
}

}  // namespace kith::observe

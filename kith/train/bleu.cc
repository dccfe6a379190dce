#include "kith/train/bleu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

constexpr std::size_t kOrders = 4;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_point(char c) {
  return c == '.' || c == ',';
}
bool is_apart(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

// The rules of mteval-v13a, one after the other; pairs of characters that match do not overlap.
template <class Matches, class Write>
std::string rewrite_pairs(const std::string& text, const Matches& matches, const Write& write) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      write(out, text[i], text[i + 1]);
      i += 2;
    } else {
      out += text[i++];
    }
  }
  return out;
}

std::string apart(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (is_apart(c)) {
      out += ' ';
      out += c;
      out += ' ';
    } else {
      out += c;
    }
  }
  return out;
}

// Bytes of the white space that begins there, 0 when there is none: Unicode's, as Python splits.
std::size_t space_at(std::string_view text) {
  const auto c = static_cast<unsigned char>(text.front());
  if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f)) return 1;
  for (const std::string_view space :
       {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
        "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}) {
    if (text.starts_with(space)) return space.size();
  }
  return 0;
}

using Gram = std::vector<std::string>;
using Counts = std::map<Gram, std::uint64_t>;

Counts grams_of(const std::vector<std::string>& tokens, std::size_t order) {
  Counts counts;
  for (std::size_t i = 0; i + order <= tokens.size(); ++i) {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(i);
    ++counts[Gram(first, first + static_cast<std::ptrdiff_t>(order))];
  }
  return counts;
}

struct Totals {
  std::array<std::uint64_t, kOrders> right{}, all{};
};

void count(const std::vector<std::string>& tokens, const std::vector<std::string>& reference,
           Totals& totals) {
  for (std::size_t order = 1; order <= kOrders; ++order) {
    const Counts wanted = grams_of(reference, order);
    for (const auto& [gram, times] : grams_of(tokens, order)) {
      totals.all[order - 1] += times;
      const auto found = wanted.find(gram);
      if (found != wanted.end()) totals.right[order - 1] += std::min(times, found->second);
    }
  }
}

}  // namespace

std::vector<std::string> bleu_tokens(std::string_view line) {
  std::string text(line);
  replace_all(text, "<skipped>", "");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  text = apart(cat(" ", text, " "));
  text = rewrite_pairs(
      text, [](char a, char b) { return !is_digit(a) && is_point(b); },
      [](std::string& out, char a, char b) { (((out += a) += ' ') += b) += ' '; });
  text = rewrite_pairs(
      text, [](char a, char b) { return is_point(a) && !is_digit(b); },
      [](std::string& out, char a, char b) { (((out += ' ') += a) += ' ') += b; });
  text = rewrite_pairs(
      text, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& out, char a, char b) { (((out += a) += ' ') += b) += ' '; });
  std::vector<std::string> tokens;
  bool within = false;
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t space = space_at(std::string_view(text).substr(i))) {
      within = false;
      i += space;
      continue;
    }
    if (!std::exchange(within, true)) tokens.emplace_back();
    tokens.back() += text[i++];
  }
  return tokens;
}

Bleu bleu(const std::vector<std::string>& translations, const std::vector<std::string>& references) {
  if (translations.size() != references.size()) {
    throw InputError(cat(references.size(), " references for ", translations.size(), " translations"), "BLEU",
                     "as many lines in both");
  }
  Bleu result;
  Totals totals;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    const std::vector<std::string> tokens = bleu_tokens(translations[i]);
    const std::vector<std::string> reference = bleu_tokens(references[i]);
    result.tokens += tokens.size();
    result.reference_tokens += reference.size();
    count(tokens, reference, totals);
  }
  if (result.tokens > 0) {
    const double ratio = static_cast<double>(result.reference_tokens) / static_cast<double>(result.tokens);
    result.brevity_penalty = ratio > 1 ? std::exp(1 - ratio) : 1;
  }
  double halved = 1, logs = 0;
  bool whole = std::ranges::any_of(totals.right, [](std::uint64_t right) { return right > 0; });
  for (std::size_t k = 0; k < kOrders && whole; ++k) {
    if (totals.all[k] == 0) {
      whole = false;  // nobody wrote as many words in a line
      break;
    }
    const auto all = static_cast<double>(totals.all[k]);
    if (totals.right[k] == 0) halved *= 2;
    result.precisions[k] =
        100 * (totals.right[k] == 0 ? 1 / halved : static_cast<double>(totals.right[k])) / all;
    logs += std::log(result.precisions[k]);
  }
  if (whole) result.score = result.brevity_penalty * std::exp(logs / kOrders);
  return result;
}

std::string bleu_text(const Bleu& bleu) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "BLEU %.2f (%.1f/%.1f/%.1f/%.1f, brevity %.3f, %llu tokens for %llu)", bleu.score,
                bleu.precisions[0], bleu.precisions[1], bleu.precisions[2], bleu.precisions[3],
                bleu.brevity_penalty, static_cast<unsigned long long>(bleu.tokens),
                static_cast<unsigned long long>(bleu.reference_tokens));
  return text.data();
}

}  // namespace kith::train

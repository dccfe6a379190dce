#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kith::train {

// BLEU of a corpus as sacreBLEU defines it: one reference for each line, capitals count, the tokens of
// mteval-v13a, n-grams of 1 to 4, and where no n-gram of a length is right, half as much as for the length
// before (smoothing "exp"). Torch-free.
struct Bleu {
  double score = 0;                    // 0 to 100
  std::array<double, 4> precisions{};  // percent
  double brevity_penalty = 0;
  std::uint64_t tokens = 0, reference_tokens = 0;
};

// InputError when there are not as many references as translations.
Bleu bleu(const std::vector<std::string>& translations, const std::vector<std::string>& references);

// The tokens of a line: punctuation apart from words, but not within numbers.
std::vector<std::string> bleu_tokens(std::string_view line);

// "BLEU 27.31 (57.2/33.4/21.1/13.8, brevity 0.98, 1900 tokens for 1934)".
std::string bleu_text(const Bleu& bleu);

}  // namespace kith::train

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "kith/train/data/tokenizer.h"

namespace kith::train {

// Sentences and their translations in one token file (token_file.h): a source, the end mark, its translation,
// the end mark, and so on. Torch-free; immutable.
class PairFile {
 public:
  struct Pair {
    std::span<const std::uint16_t> source, target;  // without marks
    // What it takes in a batch: the longer side, with its mark.
    std::uint64_t length() const { return (source.size() > target.size() ? source : target).size() + 1; }
  };

  struct Options {
    std::int64_t end_mark = 2;
    std::uint64_t vocabulary = 1;  // of the model
    std::uint64_t longest = 256;   // tokens of a side, with its mark; longer pairs are left out
  };

  // InputError when the file cannot be read, ends within a pair, holds a token that is not in the vocabulary,
  // or no pair that is short enough.
  PairFile(const std::filesystem::path& file, const Options& options);

  const std::vector<Pair>& pairs() const { return pairs_; }

 private:
  std::vector<std::uint16_t> tokens_;
  std::vector<Pair> pairs_;
};

// Parts pairs into batches of pairs of about the same length: a batch takes at most `tokens`, its pairs times
// the longest of them, or is a single pair.
class LengthBatches {
 public:
  LengthBatches(const std::vector<PairFile::Pair>& pairs, std::uint64_t tokens);

  std::uint64_t count() const { return cuts_.size() - 1; }
  // The pairs of a batch, by number. Among pairs of one length the epoch deals anew, so that batches of other
  // epochs have other pairs, and every epoch has each pair once. REQUIRES: batch below count().
  std::vector<std::uint64_t> batch(std::uint64_t batch, std::uint64_t seed, std::uint64_t epoch) const;

 private:
  struct Run {  // pairs of one length
    std::uint64_t first, count;
  };
  std::vector<std::uint64_t> order_;  // of the pairs, by length
  std::vector<Run> runs_;
  std::vector<std::uint64_t> cuts_;  // the first place of each batch, and the end
};

}  // namespace kith::train

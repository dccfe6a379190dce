#include "kith/train/data/pairs.h"

#include <algorithm>
#include <numeric>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/train/data/token_file.h"

namespace kith::train {

PairFile::PairFile(const std::filesystem::path& path, const Options& options) {
  const TokenFile file(path);
  tokens_.assign(file.tokens().begin(), file.tokens().end());
  const std::span<const std::uint16_t> all(tokens_);
  std::vector<std::span<const std::uint16_t>> sides;
  std::size_t first = 0;
  for (std::size_t at = 0; at < all.size(); ++at) {
    if (all[at] >= options.vocabulary) {
      throw InputError(cat("holds the token ", all[at], " at place ", at, ", and model.vocabulary is ",
                           options.vocabulary),
                       path.string(), "set model.vocabulary to that of the tokens");
    }
    if (all[at] != options.end_mark) continue;
    sides.push_back(all.subspan(first, at - first));
    first = at + 1;
  }
  if (first != all.size() || sides.size() % 2 != 0) {
    throw InputError("ends within a pair", path.string(), "kith data pairs makes it");
  }
  for (std::size_t i = 0; i < sides.size(); i += 2) {
    const Pair pair{sides[i], sides[i + 1]};
    if (pair.length() <= options.longest) pairs_.push_back(pair);
  }
  if (pairs_.empty()) {
    throw InputError(cat("holds no pair of at most ", options.longest, " tokens a side"), path.string(),
                     "a larger model.context");
  }
}

LengthBatches::LengthBatches(const std::vector<PairFile::Pair>& pairs, std::uint64_t tokens)
    : order_(pairs.size()) {
  std::iota(order_.begin(), order_.end(), std::uint64_t{0});
  std::ranges::stable_sort(order_, {}, [&](std::uint64_t pair) { return pairs[pair].length(); });
  std::uint64_t begun = 0;
  for (std::uint64_t place = 0; place < order_.size(); ++place) {
    const std::uint64_t length = pairs[order_[place]].length();
    if (place == 0 || length != pairs[order_[place - 1]].length()) runs_.push_back({place, 0});
    ++runs_.back().count;
    // The longest is the last, for they are sorted.
    if (place == 0 || (place - begun + 1) * length > tokens) {
      cuts_.push_back(place);
      begun = place;
    }
  }
  cuts_.push_back(order_.size());
}

std::vector<std::uint64_t> LengthBatches::batch(std::uint64_t batch, std::uint64_t seed,
                                                std::uint64_t epoch) const {
  std::vector<std::uint64_t> numbers;
  auto run = std::ranges::upper_bound(runs_, cuts_[batch], {}, &Run::first) - 1;
  for (std::uint64_t place = cuts_[batch]; place < cuts_[batch + 1];) {
    const std::uint64_t end = std::min(run->first + run->count, cuts_[batch + 1]);
    // The run's own order in this epoch.
    std::vector<std::uint64_t> dealt(order_.begin() + static_cast<std::ptrdiff_t>(run->first),
                                     order_.begin() + static_cast<std::ptrdiff_t>(run->first + run->count));
    Rng rng(hash_words(seed, epoch, run->first));
    for (std::uint64_t left = run->count; left > 1; --left)
      std::swap(dealt[left - 1], dealt[rng.below(left)]);
    for (; place < end; ++place)
      numbers.push_back(dealt[place - run->first]);
    ++run;
  }
  return numbers;
}

}  // namespace kith::train

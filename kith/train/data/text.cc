#include "kith/train/data/text.h"

#include <algorithm>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/train/data/file.h"

namespace kith::train {

Text::Text(const std::filesystem::path& file, double validation, std::uint64_t context)
    : context_(context), bytes_(read_bytes(file)) {
  cut_ = bytes_.size() - static_cast<std::size_t>(static_cast<double>(bytes_.size()) * validation);
  // Training keeps one sample back to move its cuts in.
  const std::size_t shortest = std::min(cut_ / 2, bytes_.size() - cut_);
  if (shortest < context + 1) {
    throw InputError(cat(bytes_.size(), " bytes are too few for samples of ", context), file.string(),
                     "a longer text, a smaller model.context, or another data.validation");
  }
}

std::uint64_t Text::train_samples() const {
  return (cut_ - 1) / context_ - 1;
}

std::uint64_t Text::validation_samples() const {
  return (bytes_.size() - cut_ - 1) / context_;
}

std::span<const std::uint8_t> Text::train(std::uint64_t sample, std::uint64_t epoch) const {
  const std::uint64_t moved = hash_words(epoch) % context_;
  return std::span(bytes_).subspan(moved + sample * context_, context_ + 1);
}

std::span<const std::uint8_t> Text::validation(std::uint64_t sample) const {
  return std::span(bytes_).subspan(cut_ + sample * context_, context_ + 1);
}

}  // namespace kith::train

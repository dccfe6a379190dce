#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace kith::train {

// A text as bytes, cut once: the first part to learn from, the last `validation` share of it to validate on.
// Torch-free; immutable.
class Text {
 public:
  // InputError when the file cannot be read, or either part is too short for one sample of `context` bytes.
  Text(const std::filesystem::path& file, double validation, std::uint64_t context);

  // Samples lie end to end, without overlap; each is `context` bytes and the byte that follows.
  std::uint64_t train_samples() const;
  std::uint64_t validation_samples() const;

  // context + 1 bytes. The cuts between training samples move with the epoch.
  std::span<const std::uint8_t> train(std::uint64_t sample, std::uint64_t epoch) const;
  std::span<const std::uint8_t> validation(std::uint64_t sample) const;

 private:
  const std::uint64_t context_;
  std::vector<std::uint8_t> bytes_;
  std::size_t cut_ = 0;  // first byte of the validation part
};

}  // namespace kith::train

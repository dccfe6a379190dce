#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace kith::train {

// A file of tokens in nanoGPT's layout: 16-bit unsigned numbers, little-endian, one after the other, and
// nothing else. Mapped, not read: it may be larger than memory. Torch-free; immutable.
class TokenFile {
 public:
  // InputError when the file cannot be read, is empty, or ends within a token.
  explicit TokenFile(const std::filesystem::path& file);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  std::span<const std::uint16_t> tokens() const { return tokens_; }
  const std::string& place() const { return place_; }

 private:
  const std::string place_;
  std::span<const std::uint16_t> tokens_;
};

// The files train.bin and val.bin of a folder, cut into samples. Torch-free; immutable.
class Tokens {
 public:
  struct Options {
    std::uint64_t context = 1;
    std::uint64_t vocabulary = 1;  // of the model
  };

  // InputError as above, when a file is too short for a sample, or when the folder's meta.json
  // (token_meta.h) tells of more tokens than the vocabulary has.
  Tokens(const std::filesystem::path& folder, const Options& options);

  // Samples lie end to end, without overlap; each is `context` tokens and the one that follows.
  std::uint64_t train_samples() const;
  std::uint64_t validation_samples() const;

  // context + 1 tokens. The cuts between training samples move with the epoch. InputError names the file and
  // the place of a token that is not in the vocabulary: files may be too large to look through beforehand.
  std::span<const std::uint16_t> train(std::uint64_t sample, std::uint64_t epoch) const;
  std::span<const std::uint16_t> validation(std::uint64_t sample) const;

 private:
  std::span<const std::uint16_t> cut(const TokenFile& file, std::uint64_t first) const;

  const Options options_;
  const TokenFile train_;
  const TokenFile validation_;
};

}  // namespace kith::train

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace kith::train {

// What `kith data` writes beside the token files that it makes, as meta.json.
struct TokenMeta {
  std::uint64_t vocabulary = 256;
  std::string tokenizer = "bytes";  // or the name of a SentencePiece model in the same folder
  // Of pairs: the tokens that sentences begin and end with; -1: the files are no pairs.
  std::int64_t begin = -1, end = -1;
};

std::filesystem::path token_meta_file(const std::filesystem::path& folder);

// Nothing where there is no such file: files of others come without. InputError when it is damaged.
std::optional<TokenMeta> read_token_meta(const std::filesystem::path& folder);
void write_token_meta(const std::filesystem::path& folder, const TokenMeta& meta);

}  // namespace kith::train

#include "kith/train/data/tokenizer.h"

#include <algorithm>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/token_meta.h"

namespace kith::train {
namespace {

class Bytes final : public Tokenizer {
 public:
  std::uint64_t vocabulary() const override { return 256; }
  Marks marks() const override { return {256, 257, 258}; }
  std::int64_t newline() const override { return '\n'; }

  std::vector<Line> encode(const std::vector<std::string>& lines) const override {
    std::vector<Line> encoded;
    for (const std::string& line : lines) {
      encoded.emplace_back();
      for (const char c : line)
        encoded.back().push_back(static_cast<unsigned char>(c));
    }
    return encoded;
  }

  std::vector<std::string> decode(const std::vector<Line>& lines) const override {
    std::vector<std::string> decoded;
    for (const Line& line : lines) {
      decoded.emplace_back();
      for (const std::int64_t token : line) {
        if (token >= 0 && token < 256) decoded.back() += static_cast<char>(token);
      }
    }
    return decoded;
  }
};

}  // namespace

Tokenizer::Line Tokenizer::encode_text(std::string_view text) const {
  Line tokens;
  const std::vector<Line> lines = encode(split(text, '\n'));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) tokens.push_back(newline());
    tokens.insert(tokens.end(), lines[i].begin(), lines[i].end());
  }
  return tokens;
}

std::string Tokenizer::decode_text(const Line& tokens) const {
  std::vector<Line> lines(1);
  for (const std::int64_t token : tokens) {
    if (token == newline()) {
      lines.emplace_back();
    } else {
      lines.back().push_back(token);
    }
  }
  return join(decode(lines), "\n");
}

std::unique_ptr<Tokenizer> byte_tokenizer() {
  return std::make_unique<Bytes>();
}

std::unique_ptr<Tokenizer> folder_tokenizer(const std::filesystem::path& program,
                                            const std::filesystem::path& folder) {
  const auto meta = read_token_meta(folder);
  if (!meta) {
    throw InputError("no such file", token_meta_file(folder).string(),
                     "it says how text becomes tokens; kith data tokens writes it");
  }
  if (meta->tokenizer == "bytes") return byte_tokenizer();
  return sentencepiece_tokenizer(program, folder / meta->tokenizer);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace kith::train

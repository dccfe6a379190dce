#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kith::train {

// Text to numbers and back, line by line. Torch-free.
class Tokenizer {
 public:
  using Line = std::vector<std::int64_t>;

  virtual ~Tokenizer() = default;

  virtual std::uint64_t vocabulary() const = 0;
  // Tokens that stand for no text: before the first of a sentence, after its last, and where there is none.
  struct Marks {
    std::int64_t begin, end, padding;
  };
  virtual Marks marks() const = 0;

  // `lines` hold no newline. As many come back.
  virtual std::vector<Line> encode(const std::vector<std::string>& lines) const = 0;
  virtual std::vector<std::string> decode(const std::vector<Line>& lines) const = 0;
  // The token of a newline, between the lines of a text.
  virtual std::int64_t newline() const = 0;

  // A whole text. decode_text(encode_text(x)) is x, unless x holds SentencePiece's own U+2581.
  Line encode_text(std::string_view text) const;
  std::string decode_text(const Line& tokens) const;
};

// Every byte is a token. Marks are 256, 257 and 258, which texts of a language model do not need.
std::unique_ptr<Tokenizer> byte_tokenizer();

// Note [SentencePiece is a program]
// libsentencepiece and LibTorch each bring a protobuf along, of other versions under the same names: in one
// process they crash. So kith's use of it is a program, kith-sentencepiece, which lies beside kith and is
// built where the library is.

// `program`: kith-sentencepiece. InputError when it is not there, or the model cannot be read.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& program,
                                                   const std::filesystem::path& model);

struct SentencePieceTraining {
  std::uint64_t vocabulary = 8000;
  std::filesystem::path model;  // the file to write
};
// Learns byte pairs from the lines. InputError as above, and for a vocabulary that the lines cannot fill.
void train_sentencepiece(const std::filesystem::path& program, const std::vector<std::string>& lines,
                         const SentencePieceTraining& training);

// The tokenizer that a folder's meta.json names. InputError when there is none.
std::unique_ptr<Tokenizer> folder_tokenizer(const std::filesystem::path& program,
                                            const std::filesystem::path& folder);

// Between newlines; a newline at the very end begins no line.
std::vector<std::string> lines_of(std::string_view text);

}  // namespace kith::train

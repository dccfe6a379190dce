// kith-sentencepiece: Note [SentencePiece is a program] in kith/train/data/tokenizer.h.
//
//   kith-sentencepiece train MODEL VOCABULARY   learns from the lines of standard input, writes MODEL
//   kith-sentencepiece about MODEL              "VOCABULARY NEWLINE BEGIN END PADDING"
//   kith-sentencepiece encode MODEL             lines of text to lines of numbers
//   kith-sentencepiece decode MODEL             and back
//
// Bad input: a line on standard error, and exit code 2.

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

namespace {

namespace sp = sentencepiece;

struct Refusal {
  std::string text;
};

void require(const sp::util::Status& status, const std::string& place) {
  if (!status.ok()) throw Refusal{place + ": " + status.ToString()};
}

class Lines final : public sp::SentenceIterator {
 public:
  Lines() { Next(); }
  bool done() const override { return done_; }
  void Next() override { done_ = !std::getline(std::cin, line_); }
  const std::string& value() const override { return line_; }
  sp::util::Status status() const override { return {}; }

 private:
  std::string line_;
  bool done_ = false;
};

// Every text is kept as it is: no normalisation, spaces as they come, bytes for characters that are rare.
void train(const std::string& model, const std::string& vocabulary) {
  Lines lines;
  if (lines.done()) throw Refusal{"there is no text to learn from"};
  std::string bytes;
  require(sp::SentencePieceTrainer::Train({{"vocab_size", vocabulary},
                                           {"model_type", "bpe"},
                                           {"byte_fallback", "true"},
                                           {"normalization_rule_name", "identity"},
                                           {"add_dummy_prefix", "false"},
                                           {"remove_extra_whitespaces", "false"},
                                           {"character_coverage", "0.9999"},
                                           {"pad_id", "3"},
                                           {"minloglevel", "2"}},
                                          &lines, &bytes),
          "a vocabulary of " + vocabulary);
  std::ofstream file(model, std::ios::binary);
  if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush())
    throw Refusal{model + ": cannot be written"};
}

void encode(const sp::SentencePieceProcessor& processor) {
  std::vector<int> tokens;
  for (std::string line; std::getline(std::cin, line);) {
    require(processor.Encode(line, &tokens), line);
    for (const int token : tokens)
      std::cout << token << ' ';
    std::cout << '\n';
  }
}

void decode(const sp::SentencePieceProcessor& processor) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream numbers(line);
    std::vector<int> tokens;
    for (int token = 0; numbers >> token;) {
      // Models may give scores to more tokens than there are, and marks stand for no text.
      if (token >= 0 && token < processor.GetPieceSize() && !processor.IsControl(token))
        tokens.push_back(token);
    }
    std::string text;
    require(processor.Decode(tokens, &text), line);
    std::cout << text << '\n';
  }
}

void run(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[0] == "train") return train(words[1], words[2]);
  if (words.size() != 2) throw Refusal{"train MODEL VOCABULARY, or about, encode or decode MODEL"};
  sp::SentencePieceProcessor processor;
  require(processor.Load(words[1]), words[1]);
  if (words[0] == "about") {
    std::cout << processor.GetPieceSize() << ' ' << processor.PieceToId("<0x0A>") << ' ' << processor.bos_id()
              << ' ' << processor.eos_id() << ' ' << processor.pad_id() << '\n';
  } else if (words[0] == "encode") {
    encode(processor);
  } else if (words[0] == "decode") {
    decode(processor);
  } else {
    throw Refusal{"'" + words[0] + "' is none of train, about, encode, decode"};
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    run({argv + 1, argv + argc});
    return std::cout.flush() ? 0 : 1;
  } catch (const Refusal& refusal) {
    std::cerr << refusal.text << "\n";
    return 2;
  }
}

#include "cli/data_tokens.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/trained_run.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/file.h"
#include "kith/train/data/token_meta.h"
#include "kith/train/data/tokenizer.h"
#include "kith/train/durable_file.h"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;
using train::Tokenizer;

constexpr std::size_t kLearnFrom = 400'000;    // lines, spread over all: more do not change a vocabulary much
constexpr std::uint64_t kMostTokens = 65'536;  // 16 bits a token
constexpr const char* kModelName = "tokenizer.model";

struct TokenFlags {
  std::vector<std::string> texts;
  std::vector<std::string> validation_texts;
  std::vector<std::string> sources, targets, validation_sources, validation_targets;
  std::string to;
  std::string tokenizer;
  std::uint64_t vocabulary = 0;  // 0: bytes
  double validation = 0.1;
};

std::string read_all(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) {
    const std::vector<std::uint8_t> bytes = train::read_bytes(file);
    text.append(bytes.begin(), bytes.end());
    if (!text.empty() && text.back() != '\n') text += '\n';
  }
  return text;
}

std::vector<std::string> spread(const std::vector<std::string>& lines) {
  if (lines.size() <= kLearnFrom) return lines;
  std::vector<std::string> some;
  for (std::size_t i = 0; i < kLearnFrom; ++i)
    some.push_back(lines[i * lines.size() / kLearnFrom]);
  return some;
}

// Bytes, a model that is there, or one that is learnt from `lines`; a model lies in the folder afterwards.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenFlags& flags, const std::vector<std::string>& lines) {
  if (flags.vocabulary == 0 && flags.tokenizer.empty()) return train::byte_tokenizer();
  if (flags.vocabulary > 0 && !flags.tokenizer.empty())
    throw InputError("a tokenizer has its own vocabulary", "--vocabulary", "leave one of the two out");
  const fs::path model = fs::path(flags.to) / kModelName;
  if (flags.tokenizer.empty()) {
    train::train_sentencepiece(sentencepiece_program(), spread(lines), {flags.vocabulary, model});
  } else {
    std::error_code problem;
    if (!fs::equivalent(flags.tokenizer, model, problem))
      fs::copy_file(flags.tokenizer, model, fs::copy_options::overwrite_existing, problem);
    if (!fs::exists(model)) throw InputError("cannot be read", flags.tokenizer, "a SentencePiece model");
  }
  return train::sentencepiece_tokenizer(sentencepiece_program(), model);
}

void write_tokens(const fs::path& path, const Tokenizer::Line& tokens) {
  const std::vector<std::uint16_t> words(tokens.begin(), tokens.end());
  train::DurableFile file(path);
  file.write(std::as_bytes(std::span(words)));
  file.commit();
  std::cout << path.string() << ": " << words.size() << " tokens\n";
}

void make_folder(const std::string& to) {
  std::error_code problem;
  fs::create_directories(to, problem);
  if (problem) throw InputError(cat("cannot be made: ", problem.message()), to, "choose another --to");
}

void write_meta(const TokenFlags& flags, const train::TokenMeta& meta) {
  if (meta.vocabulary > kMostTokens)
    throw InputError(cat(meta.vocabulary, " tokens do not fit 16 bits"), "--vocabulary",
                     cat("at most ", kMostTokens));
  train::write_token_meta(flags.to, meta);
  std::cout << "settings: data.path = \"" << fs::absolute(flags.to).lexically_normal().string()
            << "\", model.vocabulary = " << (meta.vocabulary + 63) / 64 * 64 << "\n";
}

std::string name_of(const TokenFlags& flags) {
  return flags.vocabulary == 0 && flags.tokenizer.empty() ? "bytes" : kModelName;
}

void make_tokens(const TokenFlags& flags) {
  make_folder(flags.to);
  std::string text = read_all(flags.texts), validation = read_all(flags.validation_texts);
  if (flags.validation_texts.empty()) {
    // At the end of a line, so that no word is cut.
    const auto share = static_cast<std::size_t>(static_cast<double>(text.size()) * (1 - flags.validation));
    const std::size_t cut = std::min(text.size(), text.find('\n', share)) + 1;
    validation = cut < text.size() ? text.substr(cut) : "";
    text.resize(std::min(cut, text.size()));
  }
  const auto tokenizer = make_tokenizer(flags, train::lines_of(text));
  write_tokens(fs::path(flags.to) / "train.bin", tokenizer->encode_text(text));
  write_tokens(fs::path(flags.to) / "val.bin", tokenizer->encode_text(validation));
  write_meta(flags, {.vocabulary = tokenizer->vocabulary(), .tokenizer = name_of(flags)});
}

// Sources and targets by turns, each followed by the mark.
Tokenizer::Line interleaved(const Tokenizer& tokenizer, const std::vector<std::string>& sources,
                            const std::vector<std::string>& targets) {
  const auto from = tokenizer.encode(sources), to = tokenizer.encode(targets);
  Tokenizer::Line tokens;
  for (std::size_t i = 0; i < from.size(); ++i) {
    for (const Tokenizer::Line& side : {from[i], to[i]}) {
      tokens.insert(tokens.end(), side.begin(), side.end());
      tokens.push_back(tokenizer.marks().end);
    }
  }
  return tokens;
}

void require_pairs(const std::vector<std::string>& sources, const std::vector<std::string>& targets,
                   const std::string& file) {
  if (sources.size() == targets.size() && !sources.empty()) return;
  throw InputError(cat("has ", targets.size(), " lines for the ", sources.size(), " of the sources"), file,
                   "one translation a line");
}

void make_pairs(const TokenFlags& flags) {
  make_folder(flags.to);
  const auto sources = train::lines_of(read_all(flags.sources)),
             targets = train::lines_of(read_all(flags.targets));
  const auto validation_sources = train::lines_of(read_all(flags.validation_sources));
  const auto validation_targets = train::lines_of(read_all(flags.validation_targets));
  require_pairs(sources, targets, flags.targets.front());
  require_pairs(validation_sources, validation_targets, flags.validation_targets.front());
  std::vector<std::string> both = sources;  // one vocabulary for the two languages
  both.insert(both.end(), targets.begin(), targets.end());
  const auto tokenizer = make_tokenizer(flags, both);
  const Tokenizer::Marks marks = tokenizer->marks();
  write_tokens(fs::path(flags.to) / "train.bin", interleaved(*tokenizer, sources, targets));
  write_tokens(fs::path(flags.to) / "val.bin",
               interleaved(*tokenizer, validation_sources, validation_targets));
  const auto past_marks = static_cast<std::uint64_t>(std::max({marks.begin, marks.end, marks.padding}) + 1);
  write_meta(flags, {.vocabulary = std::max(tokenizer->vocabulary(), past_marks),
                     .tokenizer = name_of(flags),
                     .begin = marks.begin,
                     .end = marks.end});
}

void add_tokenizer_flags(CLI::App& command, TokenFlags& flags) {
  command.add_option("--to", flags.to, "folder for train.bin, val.bin, meta.json and tokenizer.model")
      ->required();
  command
      .add_option("--vocabulary", flags.vocabulary,
                  "learn as many tokens with SentencePiece (default: bytes)")
      ->check(CLI::Range(300, static_cast<int>(kMostTokens)));
  command.add_option("--tokenizer", flags.tokenizer, "a SentencePiece model to use instead");
}

}  // namespace

void add_data_tokens(CLI::App& data) {
  auto flags = std::make_shared<TokenFlags>();
  CLI::App* tokens = data.add_subcommand("tokens", "Make token files of texts, for model.name = \"gpt\"");
  tokens->add_option("text", flags->texts, "text files to learn from")->required();
  tokens->add_option("--validation-text", flags->validation_texts, "text files to validate on");
  tokens
      ->add_option("--validation", flags->validation,
                   "without --validation-text: the share of the text, from its end, to validate on")
      ->check(CLI::Range(0.0001, 0.9))
      ->capture_default_str();
  add_tokenizer_flags(*tokens, *flags);
  tokens->callback([flags] { make_tokens(*flags); });
}

void add_data_pairs(CLI::App& data) {
  auto flags = std::make_shared<TokenFlags>();
  CLI::App* pairs = data.add_subcommand(
      "pairs", "Make token files of sentences and translations, for model.name = \"transformer\"");
  pairs->add_option("--source", flags->sources, "sentences, one a line")->required();
  pairs->add_option("--target", flags->targets, "their translations, line by line")->required();
  pairs->add_option("--validation-source", flags->validation_sources, "the same to validate on")->required();
  pairs->add_option("--validation-target", flags->validation_targets)->required();
  add_tokenizer_flags(*pairs, *flags);
  pairs->callback([flags] { make_pairs(*flags); });
}

}  // namespace kith::cli

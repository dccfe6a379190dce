// Token files, vocabularies, pairs of sentences.

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/pairs.h"
#include "kith/train/data/token_file.h"
#include "kith/train/data/token_meta.h"
#include "kith/train/data/tokenizer.h"
#include "tests/run/support.h"

namespace kith::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string words(const std::vector<std::uint16_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size()};
}

std::vector<std::uint16_t> counting(std::size_t count, std::uint16_t from = 0) {
  std::vector<std::uint16_t> tokens;
  for (std::size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::uint16_t>(from + i));
  return tokens;
}

TEST(Tokens, SamplesLieEndToEnd) {
  const TestFolder folder;
  folder.write("train.bin", words(counting(1000)));
  folder.write("val.bin", words(counting(100, 5000)));
  const Tokens tokens(folder.path(), {.context = 16, .vocabulary = 50304});
  EXPECT_EQ(tokens.train_samples(), 61u);  // 62 fit, one is kept to move the cuts in
  EXPECT_EQ(tokens.validation_samples(), 6u);
  for (const std::uint64_t epoch : {0u, 1u, 7u}) {
    const std::uint16_t shift = tokens.train(0, epoch).front();
    EXPECT_LT(shift, 16);
    for (std::uint64_t s = 0; s < tokens.train_samples(); ++s) {
      const auto sample = tokens.train(s, epoch);
      ASSERT_EQ(sample.size(), 17u);
      EXPECT_EQ(sample.front(), shift + 16 * s);
      EXPECT_EQ(sample.back(), shift + 16 * s + 16);
    }
  }
  EXPECT_EQ(tokens.validation(5).back(), 5096);
}

TEST(Tokens, BadFilesAreNamedWithTheirPlace) {
  const TestFolder folder;
  const auto problem = [&](std::uint64_t vocabulary = 50304) {
    return failure_of<InputError>([&] { Tokens(folder.path(), {.context = 16, .vocabulary = vocabulary}); });
  };
  EXPECT_THAT(problem(), AllOf(HasSubstr("train.bin"), HasSubstr("kith data tokens")));
  folder.write("train.bin", words(counting(100)));
  folder.write("val.bin", "");
  EXPECT_THAT(problem(), AllOf(HasSubstr("val.bin"), HasSubstr("is empty")));
  folder.write("val.bin", "abc");
  EXPECT_THAT(problem(), AllOf(HasSubstr("has 3 bytes and ends within a token")));
  folder.write("val.bin", words(counting(16)));
  EXPECT_THAT(problem(), AllOf(HasSubstr("val.bin"), HasSubstr("has 16 tokens, too few for samples of 16")));
  folder.write("val.bin", words(counting(17)));
  EXPECT_EQ(problem(), "");
  EXPECT_THAT(problem(60), AllOf(HasSubstr("train.bin"), HasSubstr("the token 67 at place 67"),
                                 HasSubstr("model.vocabulary is 60")));
  write_token_meta(folder.path(), {.vocabulary = 60000, .tokenizer = "bytes"});
  EXPECT_THAT(problem(),
              AllOf(HasSubstr("meta.json"), HasSubstr("60000"), HasSubstr("model.vocabulary = 60032")));
  folder.write("meta.json", "{\"vocabulary\": \"many\"}");
  EXPECT_THAT(problem(), AllOf(HasSubstr("meta.json"), HasSubstr("wanted")));
}

// Far behind in a file, where nobody looks before the sample is drawn.
TEST(Tokens, ABadTokenFarBehindIsFoundWhenItIsDrawn) {
  const TestFolder folder;
  std::vector<std::uint16_t> tokens((1 << 20) + 5000, 7);
  tokens[(1 << 20) + 4000] = 999;
  folder.write("train.bin", words(tokens));
  folder.write("val.bin", words(counting(100)));
  const Tokens data(folder.path(), {.context = 64, .vocabulary = 256});
  const std::string message = failure_of<InputError>([&] {
    for (std::uint64_t s = 0; s < data.train_samples(); ++s)
      data.train(s, 0);
  });
  EXPECT_THAT(message,
              AllOf(HasSubstr("train.bin"), HasSubstr(cat("the token 999 at place ", (1 << 20) + 4000))));
}

TEST(Tokenizer, BytesKeepEveryText) {
  const auto bytes = byte_tokenizer();
  const std::string text = "Grüße,\n\n  zwei\tLeerzeichen \n";
  EXPECT_EQ(bytes->decode_text(bytes->encode_text(text)), text);
  EXPECT_EQ(bytes->encode_text(text).size(), text.size());
  EXPECT_EQ(bytes->decode({{72, 256, 105, 257, 258}}).front(), "Hi") << "marks stand for no text";
}

#ifdef KITH_SENTENCEPIECE
std::vector<std::string> some_lines() {
  std::vector<std::string> lines;
  for (int i = 0; i < 400; ++i)
    lines.push_back(cat("line ", i, " of the texts that it learns from, über ", i * i, " words"));
  return lines;
}

TEST(Tokenizer, SentencePieceKeepsEveryTextAndIsShorter) {
  const TestFolder folder;
  const auto model = folder.path() / "m.model";
  train_sentencepiece(KITH_SENTENCEPIECE, some_lines(), {.vocabulary = 400, .model = model});
  const auto pieces = sentencepiece_tokenizer(KITH_SENTENCEPIECE, model);
  EXPECT_EQ(pieces->vocabulary(), 400u);
  const std::string text = "line 7 of  the texts\n\n\tunknown: 日本 „ß“ \n that it learns";
  const Tokenizer::Line tokens = pieces->encode_text(text);
  EXPECT_EQ(pieces->decode_text(tokens), text);
  EXPECT_LT(pieces->encode_text("line 7 of the texts that it learns from").size(), 20u);
  const auto marks = pieces->marks();
  EXPECT_EQ((std::set<std::int64_t>{marks.begin, marks.end, marks.padding, pieces->newline()}).size(), 4u);
  for (const std::int64_t token : tokens)
    EXPECT_TRUE(token >= 0 && token < 400 && token != marks.end) << token;
  Tokenizer::Line marked = pieces->encode({"texts"}).front();
  marked.push_back(marks.end);
  marked.push_back(401);  // a model's padded row
  EXPECT_EQ(pieces->decode({marked}).front(), "texts");
}

TEST(Tokenizer, SentencePieceSaysWhatIsWrong) {
  const TestFolder folder;
  EXPECT_THAT(failure_of<InputError>([&] {
                train_sentencepiece(KITH_SENTENCEPIECE, {"short"}, {50000, folder.path() / "m.model"});
              }),
              HasSubstr("50000"));
  EXPECT_THAT(failure_of<InputError>(
                  [&] { sentencepiece_tokenizer(KITH_SENTENCEPIECE, folder.write("bad.model", "no")); }),
              HasSubstr("bad.model"));
}
#endif

TEST(Tokenizer, AMissingProgramOrFolderIsNamed) {
  const TestFolder folder;
  EXPECT_THAT(failure_of<InputError>([&] { sentencepiece_tokenizer("/nowhere/kith-sentencepiece", "m"); }),
              AllOf(HasSubstr("/nowhere/kith-sentencepiece"), HasSubstr("libsentencepiece-dev")));
  EXPECT_THAT(failure_of<InputError>([&] { folder_tokenizer("", folder.path()); }), HasSubstr("meta.json"));
}

// Pair k: k + 1 tokens that are k, and as many.
std::vector<std::uint16_t> pair_tokens(const std::vector<std::uint16_t>& lengths) {
  std::vector<std::uint16_t> tokens;
  for (const std::uint16_t length : lengths) {
    for (int side = 0; side < 2; ++side) {
      tokens.insert(tokens.end(), length, static_cast<std::uint16_t>(100 + length));
      tokens.push_back(2);
    }
  }
  return tokens;
}

TEST(Pairs, AreReadAndBadFilesNamed) {
  const TestFolder folder;
  const auto read = [&](const std::vector<std::uint16_t>& tokens, PairFile::Options options) {
    return PairFile(folder.write("train.bin", words(tokens)), options);
  };
  const PairFile::Options options{.end_mark = 2, .vocabulary = 200, .longest = 10};
  const PairFile three = read({11, 12, 2, 13, 2, 14, 2, 15, 16, 17, 2, 2, 2}, options);
  ASSERT_EQ(three.pairs().size(), 3u);
  EXPECT_THAT(three.pairs()[0].source, ElementsAre(11, 12));
  EXPECT_THAT(three.pairs()[0].target, ElementsAre(13));
  EXPECT_EQ(three.pairs()[0].length(), 3u);
  EXPECT_EQ(three.pairs()[1].length(), 4u);
  EXPECT_EQ(read(pair_tokens({3, 9, 10, 40}), options).pairs().size(), 2u) << "longer ones are left out";
  const auto problem = [&](const std::vector<std::uint16_t>& tokens) {
    return failure_of<InputError>([&] { read(tokens, options); });
  };
  EXPECT_THAT(problem({11, 2, 12}), AllOf(HasSubstr("train.bin"), HasSubstr("ends within a pair")));
  EXPECT_THAT(problem({11, 2}), HasSubstr("ends within a pair"));
  EXPECT_THAT(problem({11, 2, 250, 2}), HasSubstr("the token 250 at place 2"));
  EXPECT_THAT(problem(pair_tokens({20})), HasSubstr("no pair of at most 10"));
}

TEST(Pairs, BatchesHaveAboutTheSameLengthAndEveryPairOnceAnEpoch) {
  const TestFolder folder;
  std::vector<std::uint16_t> lengths;
  for (int i = 0; i < 500; ++i)
    lengths.push_back(static_cast<std::uint16_t>(1 + (i * 7919) % 37));
  const PairFile file(folder.write("train.bin", words(pair_tokens(lengths))),
                      {.end_mark = 2, .vocabulary = 200, .longest = 100});
  const LengthBatches batches(file.pairs(), 256);
  std::vector<std::vector<std::vector<std::uint64_t>>> epochs;
  for (const std::uint64_t epoch : {0u, 1u}) {
    std::map<std::uint64_t, int> times;
    std::uint64_t padded = 0, held = 0;
    epochs.emplace_back();
    for (std::uint64_t b = 0; b < batches.count(); ++b) {
      epochs.back().push_back(batches.batch(b, 9, epoch));
      std::uint64_t longest = 0;
      for (const std::uint64_t pair : epochs.back().back()) {
        ++times[pair];
        longest = std::max(longest, file.pairs()[pair].length());
        held += file.pairs()[pair].length();
      }
      EXPECT_LE(longest * epochs.back().back().size(), 256u);
      padded += longest * epochs.back().back().size();
    }
    EXPECT_EQ(times.size(), file.pairs().size());
    for (const auto& [pair, count] : times)
      EXPECT_EQ(count, 1) << pair;
    EXPECT_LT(static_cast<double>(padded), 1.05 * static_cast<double>(held)) << "little is padding";
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(batches.batch(3, 9, 1), batches.batch(3, 9, 1));
  // A pair longer than a batch is a batch.
  EXPECT_EQ(LengthBatches(file.pairs(), 1).count(), file.pairs().size());
}

}  // namespace
}  // namespace kith::train

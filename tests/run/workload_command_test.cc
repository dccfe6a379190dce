// The commands around a workload: tokens, training, a sample, an export; pairs, training, a translation.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/text.h"
#include "tests/run/support.h"
#include "tests/support/command.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;
using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;

class WorkloadCommands : public testing::Test {
 protected:
  Command::Result run(Words words) const {
    words.insert(words.begin(), KITH_BINARY);
    return Command(folder_.path(), words).wait();
  }
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
  static Words with(Words words, const std::vector<std::string>& settings) {
    for (const std::string& setting : settings)
      words.insert(words.end(), {"--set", setting});
    return words;
  }

  const TestFolder folder_;
};

TEST_F(WorkloadCommands, TokensAreMadeTrainedOnContinuedAndExported) {
  std::string text;
  for (int i = 0; i < 600; ++i)
    text += cat("The number of this line is ", i, ", and it ends here.\n");
  folder_.write("text.txt", text);
  Words tokens{"data", "tokens", at("text.txt"), "--to", at("tokens"), "--validation", "0.2"};
#ifdef KITH_SENTENCEPIECE
  tokens.insert(tokens.end(), {"--vocabulary", "320"});
#endif
  const auto made = run(tokens);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("train.bin"), HasSubstr("model.vocabulary = ")));
  const std::string vocabulary = made.out.substr(made.out.rfind(' ') + 1);

  const auto trained = run(
      with({"train", "--workers", "2", "--out", at("run")},
           {"data.name=tokens", "data.path=" + at("tokens"), "model.bias=false",
            "model.vocabulary=" + vocabulary.substr(0, vocabulary.find('\n')), "model.layers=1",
            "model.heads=2", "model.width=16", "model.context=16", "train.steps=3", "train.eval_samples=8"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto sampled = run({"sample", at("run"), "--prompt", "The number", "--tokens", "12", "--seed", "3"});
  ASSERT_EQ(sampled.code, 0) << sampled.err;
  EXPECT_THAT(sampled.out, testing::StartsWith("The number"));
  EXPECT_GT(sampled.out.size(), std::string("The number\n").size());
  EXPECT_EQ(run({"sample", at("run"), "--prompt", "The number", "--tokens", "12", "--seed", "3"}).out,
            sampled.out);

  const auto exported = run({"export", at("run"), "--to", at("hf")});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const auto config = nlohmann::json::parse(read_text(folder_.path() / "hf" / "config.json"));
  EXPECT_EQ(config.at("model_type"), "gpt2");
  EXPECT_EQ(config.at("n_layer"), 1);
  EXPECT_EQ(config.at("activation_function"), "gelu");
  // And back: its weights begin another run.
  const auto again =
      run(with({"train", "--workers", "1", "--out", at("again")},
               {"data.name=tokens", "data.path=" + at("tokens"),
                "model.vocabulary=" + vocabulary.substr(0, vocabulary.find('\n')), "model.layers=1",
                "model.heads=2", "model.width=16", "model.context=16", "train.steps=1",
                "train.eval_samples=8", "model.weights=" + at("hf/model.safetensors")}));
  EXPECT_EQ(again.code, 0) << again.err;

  EXPECT_THAT(run({"translate", at("run")}).err, AllOf(HasSubstr("trained a gpt"), HasSubstr("transformer")));
  EXPECT_EQ(run({"sample", at("nowhere")}).code, 2);
}

TEST_F(WorkloadCommands, PairsAreMadeTrainedOnAndTranslated) {
  std::string english, german;
  for (int i = 0; i < 120; ++i) {
    english += cat("file ", i, " not found\n");
    german += cat("Datei ", i, " nicht gefunden\n");
  }
  folder_.write("en", english);
  folder_.write("de", german);
  const auto made = run({"data", "pairs", "--source", at("en"), "--target", at("de"), "--validation-source",
                         at("en"), "--validation-target", at("de"), "--to", at("pairs")});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("model.vocabulary = 320"));  // 256 bytes and three marks, padded
  const auto trained =
      run(with({"train", "--workers", "2", "--out", at("run")},
               {"model.preset=transformer-base", "data.path=" + at("pairs"), "model.vocabulary=320",
                "model.layers=1", "model.heads=2", "model.width=16", "model.feed_forward=32",
                "model.context=40", "data.batch_tokens=256", "train.steps=4", "train.eval_samples=8"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  folder_.write("three", "file 1 not found\nfile 2 not found\n\n");
  folder_.write("right", "Datei 1 nicht gefunden\nDatei 2 nicht gefunden\n\n");
  const auto translated =
      run({"translate", at("run"), at("three"), "--reference", at("right"), "--beam", "2"});
  ASSERT_EQ(translated.code, 0) << translated.err;
  EXPECT_EQ(std::ranges::count(translated.out, '\n'), 3);
  EXPECT_THAT(translated.err, HasSubstr("BLEU "));
  folder_.write("two", "a\nb\n");
  const auto uneven = run({"translate", at("run"), at("three"), "--reference", at("two")});
  EXPECT_EQ(uneven.code, 2);
  EXPECT_THAT(uneven.err, HasSubstr("has 2 lines"));
}

TEST_F(WorkloadCommands, AResNetLearnsFromImagesAndBadDataIsRefusedBeforeAnybodyIsStarted) {
  for (int b = 0; b <= 5; ++b) {
    std::string bytes;
    for (int i = 0; i < 8; ++i)
      bytes += static_cast<char>(i) + std::string(3072, static_cast<char>(20 * i));
    folder_.write(b == 0 ? "test_batch.bin" : cat("data_batch_", b, ".bin"), bytes);
  }
  const std::vector<std::string> settings{"model.name=resnet18",    "model.stem=small",
                                          "data.name=cifar10",      "data.path=" + folder_.path().string(),
                                          "data.augment=crop-flip", "train.label_smoothing=0.1",
                                          "train.batch=2",          "train.steps=2",
                                          "train.eval_samples=4"};
  const auto trained = run(with({"train", "--workers", "2", "--out", at("run")}, settings));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("resnet18 with 11173962 parameters"));
  folder_.write("data_batch_2.bin", "short");
  const auto refused = run(with({"train", "--out", at("other")}, settings));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("data.path"), HasSubstr("data_batch_2.bin"), HasSubstr("5 bytes")));
  EXPECT_FALSE(fs::exists(at("other")));
}

}  // namespace
}  // namespace kith::train

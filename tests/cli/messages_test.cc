// What the real binary says to bad input: one line, exit 2, the flag, the value and the way out.

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/temp_folder.h"
#include "tests/support/command.h"

namespace kith::cli {
namespace {

using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Messages : public testing::Test {
 protected:
  Command::Result kith(Words words, const Command::Variables& variables = {}) {
    words.insert(words.begin(), KITH_BINARY);
    return Command(folder_.path(), std::move(words), variables).wait();
  }
  // The message of a command that must be refused.
  std::string refusal(const Words& words, const Command::Variables& variables = {}) {
    const Command::Result result = kith(words, variables);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  const TempFolder folder_{"kith-messages-test"};
};

TEST_F(Messages, NumbersThatAreNone) {
  EXPECT_EQ(refusal({"topo", "ring", "--workers", "four"}),
            "kith topo: --workers: 'four' is not a whole number\n");
  EXPECT_EQ(refusal({"topo", "ring", "--workers", "99999999999"}),
            "kith topo: --workers: '99999999999' is too large\n");
  EXPECT_EQ(refusal({"topo", "erdos-renyi", "--workers", "4", "--edge-probability", "half"}),
            "kith topo: --edge-probability: 'half' is not a number\n");
}

TEST_F(Messages, AFlagAtTheEndWithoutItsValue) {
  EXPECT_EQ(refusal({"topo", "ring", "--workers"}), "kith topo: --workers: no value is given\n");
}

TEST_F(Messages, TheCommandIsNamedOnce) {
  EXPECT_EQ(refusal({"topo", "ring"}), "kith topo: how many workers? (--workers 8, or --nodes 4,4)\n");
}

TEST_F(Messages, SwappedLettersGetASuggestion) {
  EXPECT_EQ(refusal({"trian"}), "kith: unknown command 'trian' (did you mean 'train'?)\n");
}

TEST_F(Messages, APlanWithoutAProfileSaysWhereToGetOne) {
  EXPECT_THAT(refusal({"plan"}), AllOf(StartsWith("kith plan: --profile: "), HasSubstr("kith profile")));
}

TEST_F(Messages, AnIncompleteEnvironmentIsOneShortLine) {
  const std::string message = refusal({"env"}, {{"RANK", "1"}});
  EXPECT_THAT(message,
              AllOf(HasSubstr("WORLD_SIZE, MASTER_ADDR, MASTER_PORT are not set"), HasSubstr("RANK=1")));
  EXPECT_LT(message.size(), 200u) << message;
}

TEST_F(Messages, WhatIsNotJsonIsNamedWithLineAndColumn) {
  const std::string file = write("bad.json", "{\n  \"rounds\": oops\n}\n");
  for (const Words& words :
       {Words{"topo", "file", "--workers", "4", "--file", file}, Words{"plan", "--profile", file}}) {
    EXPECT_THAT(refusal(words),
                AllOf(HasSubstr(file + ": is not JSON: line 2, column "), Not(HasSubstr("json.exception"))));
  }
}

TEST_F(Messages, DeepJsonIsRefused) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string rounds = write("deep.json", "{\"rounds\": " + deep + "}");
  for (const Words& words :
       {Words{"topo", "file", "--workers", "4", "--file", rounds}, Words{"plan", "--profile", rounds}}) {
    EXPECT_THAT(refusal(words), AllOf(HasSubstr(rounds), HasSubstr("more than 100 deep")));
  }
}

TEST_F(Messages, LongInputIsNotEchoed) {
  const std::string text(5 << 20, 'x');
  const std::string file = write("long.json", "{\"rounds\": [{\"groups\": \"" + text + "\"}]}");
  const std::string token = write("token.json", text);
  const std::string word(100'000, 'x');
  for (const Words& words :
       {Words{"topo", "file", "--workers", "4", "--file", file}, Words{"plan", "--profile", file},
        Words{"plan", "--profile", token}, Words{"topo", word, "--workers", "4"}, Words{word},
        Words{"--" + word}, Words{"topo", "ring", "--workers", word}, Words{"topo", "ring", "--nodes", word},
        Words{"topo", "ring", word}, Words{"mix", "--size", word}}) {
    EXPECT_LT(refusal(words).size(), 3000u) << words[0].substr(0, 20);
  }
}

TEST_F(Messages, AnEmptyValueIsAnError) {
  for (const Words& words :
       {Words{"topo", "ring", "--workers", ""}, Words{"topo", "ring", "--nodes", "", "--workers", "4"},
        Words{"topo", "ring", "--workers", "4", "--svg", ""},
        Words{"topo", "ring", "--workers", "4", "--svg="}, Words{"topo", "", "--workers", "4"},
        Words{"mix", "--size", ""}, Words{"plan", "--profile", ""}, Words{"plan", "--profile=", "other.json"},
        Words{"env", "--store", ""}, Words{"launch", "--workers", "", "--", "true"},
        Words{"launch", "--workers=", "--", "true"}}) {
    EXPECT_THAT(refusal(words), HasSubstr("an empty value")) << testing::PrintToString(words);
  }
}

TEST_F(Messages, EmptyWordsOfALaunchedCommandAreItsOwn) {
  const Command::Result result =
      kith({"launch", "--workers", "1", "--", "sh", "-c", "echo \"<$1> <$2>\"", "sh", "", "--workers="});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("<> <--workers=>"));
}

}  // namespace
}  // namespace kith::cli

// kith train --resume with another number of workers.

#include <fstream>
#include <nlohmann/json.hpp>

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
using testing::HasSubstr;

std::size_t steps_in(const fs::path& run, int worker) {
  std::size_t count = 0;
  std::ifstream in(run / cat("worker-", worker) / "metrics.jsonl");
  for (std::string line; std::getline(in, line);)
    count += line.find("\"kind\":\"step\"") != std::string::npos ? 1 : 0;
  return count;
}

TEST(OtherWorkers, GoOnWithARunAndSayWhatIsNotKept) {
  const TestFolder folder;
  const fs::path run = folder.path() / "run";
  Words words{KITH_BINARY, "train", "--out", run.string(), "--threads"};
  for (const char* set :
       {"world.workers=4", "world.nodes=2,2", "model.layers=1", "model.heads=2", "model.width=16",
        "model.context=16", "train.batch=2", "train.eval_samples=8", "train.eval_every=0", "rate.warmup=1",
        "optimizer.name=accum-adamw", "train.steps=4"})
    words.insert(words.end(), {"--set", set});
  ASSERT_EQ(Command(folder.path(), words).wait().code, 0);

  const auto resume = [&](const Words& more) {
    Words all{KITH_BINARY, "train", "--resume", run.string()};
    all.insert(all.end(), more.begin(), more.end());
    return Command(folder.path(), all).wait();
  };
  const auto six = resume({"--workers", "6", "--set", "world.nodes=4,2", "--set", "train.steps=6"});
  ASSERT_EQ(six.code, 0) << six.err;
  EXPECT_THAT(six.out, HasSubstr("going on from step 4"));
  for (const char* thing :
       {"own model", "exp_avg, exp_avg_sq, accumulated", "random generators", "share of the data"})
    EXPECT_THAT(six.err, HasSubstr(thing));
  EXPECT_THAT(six.err, HasSubstr("saved by 4 workers, goes on with 6"));
  EXPECT_THAT(read_text(run / "config.toml"), HasSubstr("workers = 6"));
  EXPECT_EQ(steps_in(run, 0), 6u);
  EXPECT_EQ(steps_in(run, 5), 2u);

  // The nodes of the six are not those of the two.
  const auto two = resume({"--workers", "2", "--set", "train.steps=8"});
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_THAT(two.err, HasSubstr("saved by 6 workers, goes on with 2"));
  EXPECT_EQ(steps_in(run, 1), 8u);
  const auto summary = nlohmann::json::parse(read_text(run / "summary.json"));
  EXPECT_EQ(summary["workers"], 2);
  EXPECT_EQ(summary["steps"], 8);
  EXPECT_EQ(summary["nodes"], "2");

  const auto same = resume({"--workers", "2", "--set", "train.steps=9"});
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.err.find("goes on with"), std::string::npos) << "the same number keeps everything";

  const auto epochs = resume({"--workers", "3", "--set", "train.epochs=2"});
  EXPECT_EQ(epochs.code, 2);
  EXPECT_THAT(epochs.err, HasSubstr("train.epochs"));
}

}  // namespace
}  // namespace kith::train

// kith train whose workers come and go, under kith launch --elastic.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "kith/base/text.h"
#include "tests/run/command_support.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;
using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kBatch = 2;

class Elastic : public testing::Test {
 protected:
  Words launch(const std::string& algorithm, const Words& more,
               const Words& how = {"--elastic", "2:3"}) const {
    Words words{KITH_BINARY, "launch"};
    words.insert(words.end(), how.begin(), how.end());
    words.insert(words.end(), {"--", KITH_BINARY, "train", "--out", run().string()});
    for (const char* setting :
         {"model.layers=1", "model.heads=2", "model.width=16", "model.context=16", "train.eval_samples=8",
          "rate.warmup=2", "output.log_every=500", "optimizer.noise_every=0"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(),
                 {"--set", cat("algorithm.name=", algorithm), "--set", cat("train.batch=", kBatch)});
    if (algorithm == "sgp") words.insert(words.end(), {"--set", "topology.name=exp-directed"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  fs::path run() const { return folder_.path() / "run"; }

  std::vector<json> lines_of(int worker, const std::string& kind) const {
    std::vector<json> lines;
    std::ifstream in(run() / cat("worker-", worker) / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with(cat(R"({"kind":")", kind, "\""))) continue;
      json parsed = json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!parsed.is_discarded()) lines.push_back(std::move(parsed));  // a line that is being written
    }
    return lines;
  }
  bool has_made(int worker, std::size_t steps) const { return lines_of(worker, "step").size() >= steps; }
  json summary() const { return json::parse(read_text(run() / "summary.json")); }

  void send(const Command& running, int worker, int signal) const {
    const auto process = find_launched(running, worker);
    ASSERT_TRUE(process);
    ASSERT_EQ(::kill(*process, signal), 0);
  }

  // Worker 1 is killed, and the newcomer that takes its place has made some steps.
  void replace_worker_1(Command& running) const {
    ASSERT_TRUE(eventually([&] { return has_made(0, 20) && has_made(1, 20); })) << running.err();
    send(running, 1, SIGKILL);
    ASSERT_TRUE(eventually([&] { return has_made(3, 30); })) << running.err();
  }

  const TestFolder folder_;
};

class EveryAlgorithmWith : public Elastic, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Elastic, EveryAlgorithmWith, testing::Values("awc", "allreduce", "sgp"),
                         [](const auto& test) { return std::string(test.param); });

// What everybody does together, the newcomer does too: evaluations, checkpoints, and stopping.
TEST_P(EveryAlgorithmWith, ANewcomerTrainsAlong) {
  Command running(folder_.path(),
                  launch(GetParam(), {"--set", "train.steps=10000000", "--set", "train.eval_every=40",
                                      "--set", "checkpoint.every=50"}));
  replace_worker_1(running);
  ASSERT_TRUE(eventually([&] { return !lines_of(3, "eval").empty(); })) << running.err();
  ASSERT_EQ(::kill(running.pid(), SIGINT), 0);
  const auto result = running.wait(120s);
  ASSERT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("worker 3 comes for worker 1"));
  const json told = summary();
  ASSERT_EQ(told["joined"].size(), 1u);
  // A view that would have begun in the middle of an evaluation is without the newcomer, and another follows.
  const int entered = told["joined"][0]["view"];
  EXPECT_GE(entered, 2);
  EXPECT_THAT(result.out, AllOf(HasSubstr("worker 1 is gone: 2 workers go on (view 1)"),
                                HasSubstr(cat("worker 3 has joined: 3 workers go on (view ", entered, ")"))));
  EXPECT_EQ(told["ending"], "interrupted");
  EXPECT_EQ(told["views"], entered + 1);
  ASSERT_EQ(told["lost"].size(), 1u);
  EXPECT_EQ(told["lost"][0]["worker"], 1);
  EXPECT_EQ(told["joined"][0]["worker"], 3);
  EXPECT_EQ(told["left"], json::array());

  // It has made every step since it came, with the others' rates, and none but the first without a batch.
  const std::int64_t came = told["joined"][0]["step"];
  const std::vector<json> own = lines_of(3, "step");
  const std::vector<json> others = lines_of(0, "step");
  ASSERT_EQ(static_cast<std::int64_t>(own.size()), told["steps"].get<std::int64_t>() - came);
  ASSERT_EQ(static_cast<std::int64_t>(others.size()), told["steps"].get<std::int64_t>());
  for (std::size_t k = 0; k < own.size(); ++k) {
    const json& other = others[k + static_cast<std::size_t>(came)];
    EXPECT_EQ(own[k]["step"], other["step"]);
    EXPECT_EQ(own[k]["lr"], other["lr"]);
    if (k > 0) {
      EXPECT_EQ(own[k]["epoch"], other["epoch"]);
    }
    EXPECT_EQ(own[k]["loss"].is_null(), k == 0) << own[k];
  }
  EXPECT_EQ(lines_of(3, "end").at(0)["ending"], "interrupted");

  // All three go on from the checkpoint, and others see the run as it was.
  const auto resumed = Command(folder_.path(), {KITH_BINARY, "train", "--resume", run().string(), "--set",
                                                cat("train.steps=", told["steps"].get<std::int64_t>() + 10)})
                           .wait(120s);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(summary()["steps"], told["steps"].get<std::int64_t>() + 10);
  const auto report = Command(folder_.path(), {KITH_BINARY, "report", run().string()}).wait(60s);
  EXPECT_EQ(report.code, 0) << report.err;
}

// One leaves on SIGTERM, worker 0 of all; nobody is lost, nobody comes for it, and the others go on until
// they are stopped, by a SIGTERM to the launcher.
TEST_P(EveryAlgorithmWith, AWorkerLeavesAndTheOthersGoOn) {
  Command running(folder_.path(), launch(GetParam(), {"--leave", "--set", "train.steps=10000000", "--set",
                                                      "train.eval_every=40"}));
  ASSERT_TRUE(eventually([&] { return has_made(0, 20) && has_made(2, 20); })) << running.err();
  send(running, 0, SIGTERM);
  ASSERT_TRUE(eventually([&] { return !lines_of(0, "end").empty() && !find_launched(running, 0); }))
      << running.err();
  const std::size_t then = lines_of(1, "step").size();
  ASSERT_TRUE(eventually([&] { return has_made(1, then + 60) && has_made(2, then + 60); })) << running.err();
  ASSERT_EQ(::kill(running.pid(), SIGTERM), 0);
  const auto result = running.wait(120s);
  ASSERT_EQ(result.code, 143) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("worker 0: SIGTERM: leaves, within 25 s"),
                                HasSubstr("worker 1: SIGTERM: saves at a common step and ends, within 25 s"),
                                Not(HasSubstr("comes for worker"))));
  const json told = summary();
  EXPECT_EQ(told["ending"], "terminated");
  EXPECT_EQ(told["lost"], json::array());
  ASSERT_EQ(told["left"].size(), 1u);
  EXPECT_EQ(told["left"][0]["worker"], 0);
  // The first, but where nobody who stays had caught up with it: then it goes in the one after.
  const int left = told["left"][0]["view"];
  EXPECT_GE(left, 1);
  EXPECT_THAT(result.out, HasSubstr(cat("worker 0 has left: 2 workers go on (view ", left, ")")));
  EXPECT_EQ(told["missing_rounds"], 0) << "it mixes on until the others do without it";
  EXPECT_EQ(lines_of(0, "end").at(0)["ending"], "left");
  EXPECT_LE(lines_of(0, "step").size(), told["left"][0]["step"].get<std::size_t>());
}

// To the last step of a run whose steps are reckoned from a time, by all together.
TEST_F(Elastic, ANewcomerOfATimedRunEndsWithTheOthers) {
  Command running(folder_.path(),
                  launch("awc", {"--set", "train.seconds=40", "--set", "rate.on_view=scale"}));
  replace_worker_1(running);
  const auto result = running.wait(120s);
  ASSERT_EQ(result.code, 0) << result.err;
  const json told = summary();
  EXPECT_EQ(told["ending"], "finished");
  ASSERT_EQ(told["joined"].size(), 1u);
  EXPECT_GT(told["seconds"], 20) << "the newcomer counts the time before it came";
  EXPECT_EQ(lines_of(3, "step").back()["step"], told["steps"]);
  EXPECT_EQ(lines_of(3, "step").back()["lr"], lines_of(0, "step").back()["lr"]);
  EXPECT_EQ(lines_of(3, "eval").back()["step"], told["steps"]);
  EXPECT_TRUE(fs::exists(run() / "model.safetensors"));
}

// One more by hand, in the store of a run that was not started to grow; then it is stopped with the others.
TEST_F(Elastic, AWorkerJoinsByHand) {
  const std::string store = (folder_.path() / "store").string();
  Command running(folder_.path(),
                  launch("awc", {"--set", "train.steps=10000000", "--set", "train.eval_every=40"},
                         {"--workers", "2", "--least", "1", "--store", store}));
  ASSERT_TRUE(eventually([&] { return has_made(0, 20) && has_made(1, 20); })) << running.err();
  Command joined(folder_.path(), {KITH_BINARY, "train", "--join", store});
  ASSERT_TRUE(eventually([&] { return has_made(2, 30); })) << joined.err() << running.err();
  ASSERT_EQ(::kill(joined.pid(), SIGINT), 0);
  EXPECT_EQ(joined.wait(120s).code, 130) << joined.err();
  EXPECT_EQ(running.wait(120s).code, 130) << running.err();
  EXPECT_THAT(joined.out(), HasSubstr("worker 2 joins the run in " + run().string()));
  EXPECT_EQ(summary()["joined"].at(0)["worker"], 2);
  EXPECT_EQ(lines_of(2, "step").back()["step"], summary()["steps"]);
}

TEST_F(Elastic, WhereNothingRunsNobodyJoins) {
  const auto nowhere =
      Command(folder_.path(), {KITH_BINARY, "train", "--join", (folder_.path() / "none").string()}).wait(60s);
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("there is no such folder"));
  const auto both =
      Command(folder_.path(), {KITH_BINARY, "train", "--join", "/tmp", "--out", run().string()}).wait(60s);
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--out: --join is given too"));
}

// Who begins alone has a store too, where others find it; and the last one to be left alone goes on.
TEST_F(Elastic, AJobThatBeganWithOneWorkerGrows) {
  Command running(folder_.path(),
                  launch("awc", {"--set", "train.steps=10000000", "--set", "train.eval_every=40"},
                         {"--elastic", "1:2", "--workers", "1"}));
  ASSERT_TRUE(eventually([&] { return has_made(0, 20); })) << running.err();
  const auto more = Command(folder_.path(), {KITH_BINARY, "scale", run().string(), "2"}).wait(60s);
  EXPECT_EQ(more.out, "2 workers are wanted: worker 1 comes\n") << more.err;
  ASSERT_TRUE(eventually([&] { return has_made(1, 20); })) << running.err();
  send(running, 0, SIGKILL);
  ASSERT_TRUE(eventually([&] { return has_made(2, 20); })) << running.err();
  ASSERT_EQ(::kill(running.pid(), SIGINT), 0);
  const auto result = running.wait(120s);
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_EQ(summary()["joined"].size(), 2u);
  EXPECT_EQ(summary()["lost"].size(), 1u);
}

// Two come, then all but one leave, while the job goes on.
TEST_F(Elastic, AJobIsScaled) {
  Command running(folder_.path(),
                  launch("awc", {"--set", "train.steps=10000000", "--set", "train.eval_every=40"},
                         {"--elastic", "1:4", "--workers", "2"}));
  ASSERT_TRUE(eventually([&] { return has_made(0, 20) && has_made(1, 20); })) << running.err();
  const auto scale = [&](const char* workers) {
    return Command(folder_.path(), {KITH_BINARY, "scale", run().string(), workers}).wait(60s);
  };
  const auto more = scale("4");
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(more.out, "4 workers are wanted: worker 2, worker 3 come\n");
  ASSERT_TRUE(eventually([&] { return has_made(2, 10) && has_made(3, 10); })) << running.err();
  const auto too_many = scale("5");
  EXPECT_EQ(too_many.code, 2);
  EXPECT_THAT(too_many.err, AllOf(HasSubstr("5 workers are asked for"), HasSubstr("a number from 1 to 4")));
  const auto fewer = scale("1");
  EXPECT_EQ(fewer.code, 0) << fewer.err;
  EXPECT_EQ(fewer.out, "1 worker is wanted: worker 3, worker 2, worker 1 leave\n");
  ASSERT_TRUE(eventually([&] {
    return !lines_of(1, "end").empty() && !lines_of(2, "end").empty() && !lines_of(3, "end").empty();
  })) << running.err();
  const std::size_t then = lines_of(0, "step").size();
  ASSERT_TRUE(eventually([&] { return has_made(0, then + 30); })) << running.err();
  ASSERT_EQ(::kill(running.pid(), SIGINT), 0);
  const auto result = running.wait(120s);
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_EQ(summary()["lost"], json::array());
  EXPECT_EQ(summary()["joined"].size(), 2u);
  EXPECT_EQ(summary()["left"].size(), 3u);
  const auto over = scale("2");
  EXPECT_EQ(over.code, 2);
  EXPECT_THAT(over.err, HasSubstr("nobody meets there any more"));
}

}  // namespace
}  // namespace kith::train

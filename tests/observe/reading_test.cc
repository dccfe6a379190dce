// From the lines of metrics.jsonl to the state of a run.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/observe/waits.h"
#include "tests/observe/support.h"
#include "tests/support/failure.h"

namespace kith::observe {
namespace {

using support::failure_of;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Lines, WhatIsNoLineIsNothing) {
  for (const char* text : {"", "{", "[]", "{\"kind\":\"st", "{\"kind\":\"later\"}", "{\"step\":1}"})
    EXPECT_FALSE(parse_line(text)) << text;
}

TEST(Lines, FieldsThatLackOrAreOddDoNoHarm) {
  const auto line =
      parse_line(R"({"kind":"step","step":7,"loss":null,"late":"x","peers":{"a":1,"3":{"waited":2}}})");
  ASSERT_TRUE(line);
  const auto& step = std::get<StepLine>(*line);
  EXPECT_EQ(step.step, 7);
  EXPECT_TRUE(std::isnan(step.loss));
  EXPECT_TRUE(std::isnan(step.consensus));
  ASSERT_EQ(step.peers.size(), 1u);
  EXPECT_EQ(step.peers.at(3).waited, 2);
}

TEST(Curves, AreBoundedAndLoseNoStep) {
  Curve curve;
  for (std::int64_t step = 1; step <= 5000; ++step) {
    for (int worker = 0; worker < 2; ++worker)
      curve.add({.step = step, .loss = static_cast<double>(step), .seconds = 1, .consensus = NAN});
  }
  const auto points = curve.points();
  EXPECT_LE(points.size(), 1024u);
  EXPECT_EQ(curve.steps_per_point(), 8);
  EXPECT_EQ(points.back().step, 5000);
  double lines = 0;
  for (const CurvePoint& point : points)
    lines += point.lines;
  EXPECT_EQ(lines, 10000);
  EXPECT_DOUBLE_EQ(points.front().mean_loss(), 4.5);
  EXPECT_EQ(points.front().consensus_told, 0);
}

TEST(Reader, TakesUpWhatComesAndWaitsForWholeLines) {
  const TestRun run;
  run.step(0, 1, 1, 0.5, 1);
  run.line(0, R"({"kind":"step","st)", "");
  RunReader reader(run.path());
  EXPECT_EQ(reader.state().last_step(), 1);
  run.line(0, R"(ep":2,"time":1002})");
  run.step(1, 1, 1, 0, 0);
  reader.refresh();
  EXPECT_EQ(reader.state().last_step(), 2);
  EXPECT_EQ(reader.state().workers().size(), 2u);
  EXPECT_EQ(reader.state().common_step(), 1);
}

TEST(Reader, AResumedRunTakesBackWhatItRepeats) {
  const TestRun run;
  for (int step = 1; step <= 5; ++step)
    run.step(0, step, 1, 0, 1);
  RunReader reader(run.path());
  EXPECT_EQ(reader.state().last_step(), 5);
  const auto file = metrics_file(run.path(), 0);
  std::filesystem::rename(file, run.path() / "old");  // keeps its inode from being given out again
  for (int step = 1; step <= 3; ++step)
    run.step(0, step, 1, 0, 1);
  reader.refresh();
  EXPECT_EQ(reader.state().last_step(), 3);
  EXPECT_EQ(reader.state().workers().at(0).steps, 3);
}

TEST(Reader, RefusesWhatIsNoRunAndReadsSettings) {
  const TempFolder empty("kith-observe-test");
  EXPECT_THAT(failure_of<InputError>([&] { RunReader{empty.path()}; }), HasSubstr("not a run folder"));
  const TestRun run;
  const Settings settings = RunReader(run.path()).settings();
  EXPECT_EQ(setting(settings, "algorithm.name"), "awc");
  EXPECT_EQ(setting(settings, "algorithm.mix_every"), "2");
  EXPECT_EQ(setting(settings, "nothing"), "");
}

TEST(State, LinksAddUpOverStarts) {
  const TestRun run;
  const std::string links = R"({"kind":"links","step":1,"time":1001,"peers":{"1":{"waited":2,"read":10}}})";
  run.line(0, R"({"kind":"start","step":0,"time":1000,"workers":2,"unit":"token"})");
  run.line(0, links);
  run.line(0, links);  // totals, not differences
  run.line(0, R"({"kind":"start","step":1,"time":1050,"workers":2,"unit":"token"})");
  run.line(0, links);
  const RunReader reader(run.path());
  EXPECT_EQ(reader.state().workers().at(0).links.at(1).read, 20);
  EXPECT_EQ(reader.state().workers().at(0).links.at(1).waited, 4);
  EXPECT_EQ(reader.state().workers().at(0).starts, 2);
}

TEST(State, ALostWorkerIsLostUntilItWritesAgain) {
  const TestRun run;
  run.step(0, 1, 1, 0, 1);
  run.step(1, 1, 1, 0, 0);
  run.step(0, 2, 1, 0, 1, R"(,"lost":[1])");
  RunReader reader(run.path());
  EXPECT_TRUE(reader.state().lost(1));
  EXPECT_EQ(status_of(reader, 1, reader.written(1)), Status::lost);
  EXPECT_EQ(reader.state().common_step(), 2);
  run.step(1, 3, 1, 0, 0);
  reader.refresh();
  EXPECT_FALSE(reader.state().lost(1));
}

TEST(Status, FollowsTheClockAndTheLastWord) {
  const TestRun run;
  run.step(0, 1, 1, 0, 1);
  run.step(1, 1, 1, 0, 0);
  RunReader reader(run.path());
  const double written = reader.written(0);
  EXPECT_EQ(status_of(reader, 0, written + 5), Status::running);
  EXPECT_EQ(status_of(reader, 0, written + 60), Status::silent);
  EXPECT_FALSE(over(reader, written));
  run.line(0, R"({"kind":"end","step":1,"time":1001,"ending":"failed","error":"worker 1 is gone"})");
  reader.refresh();
  EXPECT_EQ(status_of(reader, 0, written), Status::failed);
  EXPECT_FALSE(over(reader, written)) << "worker 1 may still run";
  EXPECT_TRUE(over(reader, written + 60));
}

TEST(Waits, NameTheSlowestAndWhatItCosts) {
  const TestRun run;
  for (int step = 1; step <= 10; ++step) {
    run.step(0, step, 0.1, 0.04, 2);
    run.step(1, step, 0.1, 0.02, 2);
    run.step(2, step, 0.1, 0, 0);
  }
  const RunReader reader(run.path());
  const auto found = slowest(reader, reader.written(0));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->worker, 2);
  EXPECT_NEAR(found->own, 0.1, 1e-12);
  EXPECT_NEAR(found->median, 0.08, 1e-12);
  EXPECT_NEAR(found->cost, 0.03, 1e-12);
  EXPECT_NEAR(found->share, 0.3, 1e-12);
  EXPECT_THAT(found->sentence(), HasSubstr("Worker 2 is the slowest: 100 ms"));
  EXPECT_NEAR(waits_of(reader.state().workers().at(0), Span::recent).at(2), 0.4, 1e-12);
  EXPECT_EQ(round_at(reader.state(), 10).size(), 3u);
  EXPECT_TRUE(round_at(reader.state(), 11).empty());
}

}  // namespace
}  // namespace kith::observe

// What is made of a run's state: the page's data, a report, Prometheus' text, a terminal's.

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/observe/faults.h"
#include "kith/observe/prometheus.h"
#include "kith/observe/report.h"
#include "kith/observe/run_json.h"
#include "kith/observe/slow_steps.h"
#include "kith/observe/terminal.h"
#include "tests/observe/support.h"
#include "tests/support/failure.h"

namespace kith::observe {
namespace {

using support::failure_of;
using testing::HasSubstr;
using testing::Not;

// Two workers of ten steps; the sixth takes long because worker 1 does, and worker 0 then misses it once.
class TenSteps : public TestRun {
 public:
  TenSteps() {
    for (int worker = 0; worker < 2; ++worker)
      line(
          worker,
          R"({"kind":"start","step":0,"time":1000,"workers":2,"unit":"token","environment":{"host":"a<b"}})");
    for (int step = 1; step <= 10; ++step) {
      const double seconds = step == 6 ? 0.9 : 0.1;
      TestRun::step(0, step, seconds, seconds - 0.05, 1, step == 7 ? R"(,"late":[1])" : "");
      TestRun::step(1, step, seconds, 0, 0);
    }
  }
};

TEST(Pages, DataHasNoTagAndIsWhatTheLinesSay) {
  const TenSteps run;
  const RunReader reader(run.path());
  const std::string text = page_text(run_json(reader, reader.written(0)));
  EXPECT_THAT(text, Not(HasSubstr("<")));
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["step"], 10);
  EXPECT_EQ(json["workers"][0]["host"], "a<b");
  EXPECT_EQ(json["workers"][1]["loss"], 2.0);
  EXPECT_EQ(json["curves"]["loss"][0], 10.5);
  EXPECT_EQ(json["curves"]["bytes"][9], 1280);
  EXPECT_EQ(json["slowest"]["worker"], 1);
  EXPECT_EQ(json["round"]["edges"].size(), 2u);
}

TEST(Pages, APageIsWholeInItself) {
  const TenSteps run;
  const RunReader reader(run.path());
  for (const std::string& html : {report_html(reader, {}), compare_html({&reader, &reader}, "a < b")}) {
    EXPECT_THAT(html, HasSubstr("\"use strict\""));
    for (const char* outside : {"src=", "href=", "@import", "https://", "@DATA@", "@STYLE@"})
      EXPECT_THAT(html, Not(HasSubstr(outside))) << outside;
  }
  EXPECT_THAT(compare_html({&reader}, "a < b"), HasSubstr("<title>a &lt; b</title>"));
}

TEST(Report, FindsTheSlowStepAndItsReason) {
  const TenSteps run;
  const SlowSteps slow = slow_steps(run.path());
  EXPECT_NEAR(slow.median_seconds, 0.1, 1e-6);
  ASSERT_EQ(slow.steps.size(), 1u);
  EXPECT_EQ(slow.steps[0].step, 6);
  EXPECT_EQ(slow.steps[0].rows.size(), 14u) << "three steps before and after, of both";
  EXPECT_THAT(slow.steps[0].sentence, HasSubstr("Step 6 took worker 0 900.0 ms, 9.0 times the median"));
  EXPECT_THAT(slow.steps[0].sentence, HasSubstr("850.0 ms of it waiting, longest for worker 1"));
}

TEST(Report, FaultsHaveTheirCost) {
  const TenSteps run;
  run.line(0, R"({"kind":"start","step":10,"time":1042,"workers":2})");
  run.line(1, R"({"kind":"start","step":10,"time":1040,"workers":2})");
  run.line(1, R"({"kind":"end","step":10,"time":1050,"ending":"failed","error":"no disk"})");
  const auto faults = faults_in(run.path(), 0.04);
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[0].text, "worker 0 did not wait longer for 1");
  EXPECT_THAT(faults[0].cost, HasSubstr("0.06 s more than the median"));
  EXPECT_THAT(faults[1].text, HasSubstr("2 workers went on"));
  EXPECT_THAT(faults[1].cost, HasSubstr("41 s between"));
  EXPECT_EQ(faults[2].text, "worker 1 failed: no disk");
}

TEST(Report, WhatALossCostIsToldOnce) {
  const TenSteps run;
  for (const int worker : {0, 1})
    run.line(
        worker,
        R"({"kind":"loss","step":10,"time":1011,"worker":2,"heard":7,"mean_shift":0.0021,"samples_again":12,"samples_unseen":3})");
  run.line(0, R"({"kind":"loss","step":10,"time":1012,"worker":3,"heard":9,"mean_shift":null})");
  const auto faults = faults_in(run.path(), 0.04);
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[1].text, "worker 2 was last heard of after 7 steps");
  EXPECT_EQ(
      faults[1].cost,
      "12 of its samples are dealt to others, 3 are not seen in their epoch; the mean of all models moved "
      "by about 0.0021");
  EXPECT_EQ(faults[2].cost, "0 of its samples are dealt to others, 0 are not seen in their epoch")
      << "no number, no word";
}

TEST(Report, SetsThePlanAgainstWhatWasMeasured) {
  const TenSteps run;
  const RunReader reader(run.path());
  const plan::Profile cluster = plan::read_profile(KITH_PROFILE);
  EXPECT_THAT(failure_of<InputError>([&] { plan_against_measured(reader, cluster); }),
              HasSubstr("the run has 2"));
  const plan::Profile two = plan::with_nodes(cluster, graph::Shape::parse("1,1", "test"));
  const auto rows = plan_against_measured(reader, two);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0][0], "ring, bf16, every 2");
  EXPECT_EQ(rows[1][2], "180 ms") << "18 steps of 0.1 s and two of 0.9 s";
}

TEST(Prometheus, TellsNumbersByWorkerAndPeer) {
  const TenSteps run;
  run.line(0, R"({"kind":"links","step":10,"time":1010,"peers":{"1":{"waited":1.25,"read":640}}})");
  const RunReader reader(run.path());
  const std::string text = prometheus_text(reader, reader.written(0));
  const std::string name = reader.name();
  EXPECT_THAT(text, HasSubstr(cat("kith_step{run=\"", name, "\"} 10\n")));
  EXPECT_THAT(text, HasSubstr(cat("kith_worker_loss{run=\"", name, "\",worker=\"1\"} 2\n")));
  EXPECT_THAT(text, HasSubstr(cat("kith_link_waited_seconds_total{run=\"", name,
                                  "\",worker=\"0\",peer=\"1\"} 1.25\n")));
  EXPECT_THAT(text, HasSubstr("# TYPE kith_worker_late_total counter"));
}

TEST(Terminal, FitsASmallAndALargeRun) {
  const TenSteps run;
  const RunReader reader(run.path());
  const std::string text = terminal_text(reader, reader.written(0));
  EXPECT_THAT(text, HasSubstr("step 10"));
  EXPECT_THAT(text, HasSubstr("worker 0 waits for worker 1: 72.2% of its time"));
  EXPECT_THAT(text, HasSubstr("Worker 1 is the slowest"));
  for (int worker = 2; worker < 40; ++worker)
    run.step(worker, 1, 0.1, 0, 0);
  const RunReader large(run.path());
  EXPECT_THAT(terminal_text(large, large.written(0)), HasSubstr("the slowest 16 of 40"));
}

}  // namespace
}  // namespace kith::observe

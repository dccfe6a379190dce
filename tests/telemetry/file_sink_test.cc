#include "kith/telemetry/file_sink.h"

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "tests/telemetry/support.h"

namespace kith::telemetry {
namespace {

using nlohmann::json;

std::vector<json> parse_lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(json::parse(line));
  return lines;
}

TEST(JsonLinesSink, WritesEventsAndCountersAsObjects) {
  const ScratchFolder folder;
  const std::string path = folder.file("events.jsonl");
  {
    const auto sink = make_json_lines_sink({.path = path});
    Event event = event_of(2, "a \"quoted\"\nname");
    event.args = {{"bytes", std::int64_t{1} << 60}, {"distance", 0.25}, {"peer", std::string("worker 1")}};
    sink->record(event);
    sink->record(CounterSample{.name = "totals",
                               .worker = WorkerId{2},
                               .time = Clock::Time(std::chrono::nanoseconds(9)),
                               .values = {{"late", 4}}});
  }
  const std::vector<json> lines = parse_lines(read_text(path));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            (json{{"kind", "event"},
                  {"name", "a \"quoted\"\nname"},
                  {"category", "test"},
                  {"worker", 2},
                  {"track", "main"},
                  {"start_ns", 1500000},
                  {"duration_ns", 2500},
                  {"args", {{"bytes", 1152921504606846976}, {"distance", 0.25}, {"peer", "worker 1"}}}}));
  EXPECT_EQ(lines[1], (json{{"kind", "counters"},
                            {"name", "totals"},
                            {"worker", 2},
                            {"time_ns", 9},
                            {"values", {{"late", 4}}}}));
}

TEST(JsonLinesSink, SurvivesWhatJsonCannotHold) {
  const ScratchFolder folder;
  const std::string path = folder.file("events.jsonl");
  {
    const auto sink = make_json_lines_sink({.path = path});
    Event event = event_of(0, "broken \xff text");
    event.args = {{"nan", std::numeric_limits<double>::quiet_NaN()}};
    sink->record(event);
  }
  const std::vector<json> lines = parse_lines(read_text(path));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0]["args"]["nan"].is_null());
}

TEST(JsonLinesSink, KeepsEveryLineOfEveryThread) {
  const ScratchFolder folder;
  const std::string path = folder.file("events.jsonl");
  constexpr int kThreads = 4;
  constexpr int kEvents = 250;
  {
    const auto sink = make_json_lines_sink({.path = path, .buffer_bytes = 512});
    std::vector<std::thread> threads;
    for (int worker = 0; worker < kThreads; ++worker) {
      threads.emplace_back([&, worker] {
        for (int i = 0; i < kEvents; ++i)
          sink->record(event_of(worker, std::to_string(i)));
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }
  std::set<std::pair<int, std::string>> seen;
  for (const json& line : parse_lines(read_text(path)))
    seen.emplace(line["worker"], line["name"]);
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kThreads * kEvents));
}

TEST(ChromeTraceSink, NamesProcessesAndThreadsOnce) {
  const ScratchFolder folder;
  const std::string path = folder.file("trace.json");
  {
    const auto sink = make_chrome_trace_sink({.path = path});
    sink->record(event_of(1, "step"));
    sink->record(event_of(1, "read", "communication"));
    sink->record(event_of(1, "step"));
    sink->record(CounterSample{.name = "bytes", .worker = WorkerId{1}, .time = {}, .values = {{"read", 5}}});
  }
  const json trace = json::parse(read_text(path));
  ASSERT_EQ(trace.size(), 7u);
  std::vector<std::string> kinds;
  for (const json& record : trace)
    kinds.push_back(record["ph"]);
  EXPECT_THAT(kinds, testing::ElementsAre("M", "M", "X", "M", "X", "X", "C"));
  EXPECT_EQ(trace[0]["args"]["name"], "worker 1");
  EXPECT_EQ(trace[1]["args"]["name"], "main");
  EXPECT_EQ(trace[3]["args"]["name"], "communication");
  EXPECT_EQ(trace[3]["tid"], trace[4]["tid"]);
  EXPECT_EQ(trace[2]["tid"], trace[5]["tid"]);
  EXPECT_NE(trace[2]["tid"], trace[4]["tid"]);
  EXPECT_EQ(trace[2]["ts"], 1500.0);
  EXPECT_EQ(trace[2]["dur"], 2.5);
  EXPECT_EQ(trace[6]["args"]["read"], 5);
}

TEST(ChromeTraceSink, ArrowsHaveTwoEndsOfOneName) {
  const ScratchFolder folder;
  {
    const auto sink = make_chrome_trace_sink({.path = folder.file("trace.json")});
    sink->record(event_of(1, "publish", "out"));
    const FlowEnd begin{.name = "version", .id = "7", .worker = WorkerId{1}, .track = "out", .time = {}};
    FlowEnd end = begin;
    end.side = FlowEnd::Side::end;
    end.worker = WorkerId{2};
    end.track = "main";
    sink->record(begin);
    sink->record(end);
  }
  std::map<std::string, nlohmann::json> ends;
  int out = -1;
  for (const auto& record : nlohmann::json::parse(read_text(folder.file("trace.json")))) {
    if (record["ph"] == "s" || record["ph"] == "f") ends[record["ph"]] = record;
    if (record["ph"] == "X") out = record["tid"];
  }
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends["s"]["pid"], 1);
  EXPECT_EQ(ends["s"]["tid"], out) << "on the track of what it begins at";
  EXPECT_EQ(ends["f"]["pid"], 2);
  EXPECT_EQ(ends["f"]["bp"], "e");
  for (const char* key : {"name", "cat", "id"})
    EXPECT_EQ(ends["s"][key], ends["f"][key]) << key;
}

TEST(ChromeTraceSink, IsAWholeArrayAfterEveryFlush) {
  const ScratchFolder folder;
  const std::string path = folder.file("trace.json");
  const auto sink = make_chrome_trace_sink({.path = path});
  EXPECT_EQ(json::parse(read_text(path)).size(), 0u);
  sink->record(event_of(0, "first"));
  sink->flush();
  EXPECT_EQ(json::parse(read_text(path)).size(), 3u);
  sink->record(event_of(0, "second"));
  EXPECT_EQ(json::parse(read_text(path)).size(), 3u) << "buffered, not written yet";
  sink->flush();
  EXPECT_EQ(json::parse(read_text(path)).size(), 4u);
}

TEST(FileSink, RefusesAFileThatCannotBeCreated) {
  try {
    make_json_lines_sink({.path = "/nonexistent/folder/events.jsonl"});
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/nonexistent/folder/events.jsonl"));
  }
}

class CountingLog final : public Log {
 public:
  void write(LogLevel level, std::string_view) override { errors += level == LogLevel::error; }

  int errors = 0;
};

TEST(FileSink, ReportsAFullDiskOnce) {
  CountingLog log;
  {
    const auto sink = make_json_lines_sink({.path = "/dev/full", .buffer_bytes = 1, .log = &log});
    for (int i = 0; i < 3; ++i)
      sink->record(event_of(0, "dropped"));
  }
  EXPECT_EQ(log.errors, 1);
}

}  // namespace
}  // namespace kith::telemetry

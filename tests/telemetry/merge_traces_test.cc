#include <nlohmann/json.hpp>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/telemetry/file_sink.h"
#include "tests/telemetry/support.h"

namespace kith::telemetry {
namespace {

using nlohmann::json;

std::string trace_of(const ScratchFolder& folder, int worker) {
  const std::string path = folder.file("trace-" + std::to_string(worker) + ".json");
  const auto sink = make_chrome_trace_sink({.path = path});
  sink->record(event_of(worker, "one"));
  sink->record(event_of(worker, "two"));
  return path;
}

TEST(MergeTraces, HoldsTheRecordsOfEveryWorker) {
  const ScratchFolder folder;
  const std::string merged = folder.file("merged.json");
  merge_traces({trace_of(folder, 0), trace_of(folder, 1)}, merged);
  const json trace = json::parse(read_text(merged));
  EXPECT_EQ(trace.size(), 8u);
  std::set<int> workers;
  for (const json& record : trace)
    workers.insert(record["pid"].get<int>());
  EXPECT_EQ(workers, (std::set<int>{0, 1}));
}

TEST(MergeTraces, OfNothingIsAnEmptyArray) {
  const ScratchFolder folder;
  const std::string merged = folder.file("merged.json");
  const std::string untouched = folder.file("untouched.json");
  make_chrome_trace_sink({.path = untouched});
  merge_traces({untouched}, merged);
  EXPECT_EQ(json::parse(read_text(merged)), json::array());
}

TEST(MergeTraces, MayReplaceAnInput) {
  const ScratchFolder folder;
  const std::string first = trace_of(folder, 0);
  merge_traces({first, trace_of(folder, 1)}, first);
  EXPECT_EQ(json::parse(read_text(first)).size(), 8u);
}

TEST(MergeTraces, DropsTheHalfLineOfAKilledWorker) {
  const ScratchFolder folder;
  const std::string path = trace_of(folder, 0);
  const std::string text = read_text(path);
  std::ofstream(path) << text.substr(0, text.rfind("two"));
  const std::string merged = folder.file("merged.json");
  merge_traces({path}, merged);
  EXPECT_EQ(json::parse(read_text(merged)).size(), 3u);
}

TEST(MergeTraces, NamesTheLineThatIsNoRecord) {
  const ScratchFolder folder;
  const std::string path = trace_of(folder, 0);
  std::string text = read_text(path);
  text.replace(text.find("{\"ph\":\"X\""), 1, "?");
  std::ofstream(path) << text;
  try {
    merge_traces({path}, folder.file("merged.json"));
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(path + ":4"));
  }
}

TEST(MergeTraces, RefusesAMissingFile) {
  const ScratchFolder folder;
  EXPECT_THROW(merge_traces({folder.file("absent.json")}, folder.file("merged.json")), InputError);
}

}  // namespace
}  // namespace kith::telemetry

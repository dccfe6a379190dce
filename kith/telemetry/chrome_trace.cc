#include <map>
#include <mutex>

#include "kith/telemetry/buffered_file.h"
#include "kith/telemetry/file_sink.h"
#include "kith/telemetry/json.h"

namespace kith::telemetry {
namespace {

double microseconds(Clock::Duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

// The trace format numbers processes (pid) and threads (tid) and names them by records of their own.
class ChromeTraceSink final : public Sink {
 public:
  explicit ChromeTraceSink(const FileSinkOptions& options)
      : file_(options, {.head = "[\n", .between = ",\n", .tail = "\n]\n"}) {}

  void record(const Event& event) override {
    Json record{{"ph", "X"},
                {"name", event.name},
                {"cat", event.category},
                {"pid", event.worker.value},
                {"tid", 0},
                {"ts", microseconds(event.start.time_since_epoch())},
                {"dur", microseconds(event.duration)},
                {"args", json_of(event.args)}};
    const std::lock_guard lock(mutex_);
    record["tid"] = tid_of(event.worker, event.track);
    file_.append(text_of(record));
  }

  void record(const FlowEnd& flow) override {
    const bool begins = flow.side == FlowEnd::Side::begin;
    Json record{{"ph", begins ? "s" : "f"},
                {"name", flow.name},
                {"cat", "flow"},
                {"id", flow.id},
                {"pid", flow.worker.value},
                {"tid", 0},
                {"ts", microseconds(flow.time.time_since_epoch())}};
    if (!begins) record["bp"] = "e";  // the event around it, not the next one
    const std::lock_guard lock(mutex_);
    record["tid"] = tid_of(flow.worker, flow.track);
    file_.append(text_of(record));
  }

  void record(const CounterSample& sample) override {
    const Json record{{"ph", "C"},
                      {"name", sample.name},
                      {"pid", sample.worker.value},
                      {"ts", microseconds(sample.time.time_since_epoch())},
                      {"args", json_of(sample.values)}};
    const std::lock_guard lock(mutex_);
    name_process(sample.worker);
    file_.append(text_of(record));
  }

  void flush() override {
    const std::lock_guard lock(mutex_);
    file_.drain();
  }

 private:
  using Tracks = std::map<std::string, int, std::less<>>;

  Tracks& name_process(WorkerId worker) {
    const auto [entry, is_new] = tracks_.try_emplace(worker);
    if (is_new) append_name("process_name", worker, 0, "worker " + std::to_string(worker.value));
    return entry->second;
  }

  int tid_of(WorkerId worker, const std::string& track) {
    Tracks& tracks = name_process(worker);
    const auto [entry, is_new] = tracks.try_emplace(track, static_cast<int>(tracks.size()));
    if (is_new) append_name("thread_name", worker, entry->second, track);
    return entry->second;
  }

  void append_name(const char* kind, WorkerId worker, int tid, const std::string& name) {
    file_.append(text_of(
        {{"ph", "M"}, {"name", kind}, {"pid", worker.value}, {"tid", tid}, {"args", {{"name", name}}}}));
  }

  std::mutex mutex_;
  std::map<WorkerId, Tracks> tracks_;  // guarded by mutex_
  BufferedFile file_;                  // guarded by mutex_
};

}  // namespace

std::unique_ptr<Sink> make_chrome_trace_sink(const FileSinkOptions& options) {
  return std::make_unique<ChromeTraceSink>(options);
}

}  // namespace kith::telemetry

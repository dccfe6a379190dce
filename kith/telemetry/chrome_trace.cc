#include <map>
#include <mutex>

#include "kith/telemetry/buffered_file.h"
#include "kith/telemetry/file_sink.h"
#include "kith/telemetry/json_text.h"

namespace kith::telemetry {
namespace {

// The trace format numbers processes (pid) and threads (tid) and names them by records of their own.
class ChromeTraceSink final : public Sink {
 public:
  explicit ChromeTraceSink(const FileSinkOptions& options)
      : file_(options, {.head = "[\n", .between = ",\n", .tail = "\n]\n"}) {}

  void record(const Event& event) override {
    const std::lock_guard lock(mutex_);
    const int tid = tid_of(event.worker, event.track);
    append([&](JsonObject& record) {
      record.field("ph", "X");
      record.field("name", event.name);
      record.field("cat", event.category);
      record.field("pid", event.worker.value);
      record.field("tid", tid);
      record.field("ts", event.start.time_since_epoch());
      record.field("dur", event.duration);
      record.field("args", event.args);
    });
  }

  void record(const FlowEnd& flow) override {
    const std::lock_guard lock(mutex_);
    const int tid = tid_of(flow.worker, flow.track);
    const bool begins = flow.side == FlowEnd::Side::begin;
    append([&](JsonObject& record) {
      record.field("ph", begins ? "s" : "f");
      record.field("name", flow.name);
      record.field("cat", "flow");
      record.field("id", flow.id);
      record.field("pid", flow.worker.value);
      record.field("tid", tid);
      record.field("ts", flow.time.time_since_epoch());
      if (!begins) record.field("bp", "e");  // the event around it, not the next one
    });
  }

  void record(const CounterSample& sample) override {
    const std::lock_guard lock(mutex_);
    name_process(sample.worker);
    append([&](JsonObject& record) {
      record.field("ph", "C");
      record.field("name", sample.name);
      record.field("pid", sample.worker.value);
      record.field("ts", sample.time.time_since_epoch());
      record.field("args", sample.values);
    });
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
    append([&](JsonObject& record) {
      record.field("ph", "M");
      record.field("name", kind);
      record.field("pid", worker.value);
      record.field("tid", tid);
      JsonObject(record.key("args")).field("name", name);
    });
  }

  // What `tell` puts into a JsonObject.
  template <class Tell>
  void append(const Tell& tell) {
    line_.clear();
    {
      JsonObject record(line_);
      tell(record);
    }
    file_.append(line_);
  }

  std::mutex mutex_;
  std::map<WorkerId, Tracks> tracks_;  // guarded by mutex_
  BufferedFile file_;                  // guarded by mutex_
  std::string line_;                   // guarded by mutex_; kept for its memory
};

}  // namespace

std::unique_ptr<Sink> make_chrome_trace_sink(const FileSinkOptions& options) {
  return std::make_unique<ChromeTraceSink>(options);
}

}  // namespace kith::telemetry

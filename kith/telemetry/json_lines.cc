#include <mutex>

#include "kith/telemetry/buffered_file.h"
#include "kith/telemetry/file_sink.h"
#include "kith/telemetry/json_text.h"

namespace kith::telemetry {
namespace {

class JsonLinesSink final : public Sink {
 public:
  explicit JsonLinesSink(const FileSinkOptions& options)
      : file_(options, {.head = "", .between = "\n", .tail = "\n"}) {}

  void record(const Event& event) override {
    append([&](JsonObject& line) {
      line.field("kind", "event");
      line.field("name", event.name);
      line.field("category", event.category);
      line.field("worker", event.worker.value);
      line.field("track", event.track);
      line.field("start_ns", event.start.time_since_epoch().count());
      line.field("duration_ns", event.duration.count());
      line.field("args", event.args);
    });
  }

  void record(const CounterSample& sample) override {
    append([&](JsonObject& line) {
      line.field("kind", "counters");
      line.field("name", sample.name);
      line.field("worker", sample.worker.value);
      line.field("time_ns", sample.time.time_since_epoch().count());
      line.field("values", sample.values);
    });
  }

  void flush() override {
    const std::lock_guard lock(mutex_);
    file_.drain();
  }

 private:
  template <class Tell>
  void append(const Tell& tell) {
    const std::lock_guard lock(mutex_);
    line_.clear();
    {
      JsonObject line(line_);
      tell(line);
    }
    file_.append(line_);
  }

  std::mutex mutex_;
  BufferedFile file_;  // guarded by mutex_
  std::string line_;   // guarded by mutex_; kept for its memory
};

}  // namespace

std::unique_ptr<Sink> make_json_lines_sink(const FileSinkOptions& options) {
  return std::make_unique<JsonLinesSink>(options);
}

}  // namespace kith::telemetry

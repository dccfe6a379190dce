#include <mutex>

#include "kith/telemetry/buffered_file.h"
#include "kith/telemetry/file_sink.h"
#include "kith/telemetry/json.h"

namespace kith::telemetry {
namespace {

class JsonLinesSink final : public Sink {
 public:
  explicit JsonLinesSink(const FileSinkOptions& options)
      : file_(options, {.head = "", .between = "\n", .tail = "\n"}) {}

  void record(const Event& event) override {
    append({{"kind", "event"},
            {"name", event.name},
            {"category", event.category},
            {"worker", event.worker.value},
            {"track", event.track},
            {"start_ns", event.start.time_since_epoch().count()},
            {"duration_ns", event.duration.count()},
            {"args", json_of(event.args)}});
  }

  void record(const CounterSample& sample) override {
    append({{"kind", "counters"},
            {"name", sample.name},
            {"worker", sample.worker.value},
            {"time_ns", sample.time.time_since_epoch().count()},
            {"values", json_of(sample.values)}});
  }

  void flush() override {
    const std::lock_guard lock(mutex_);
    file_.drain();
  }

 private:
  void append(const Json& object) {
    const std::string line = text_of(object);
    const std::lock_guard lock(mutex_);
    file_.append(line);
  }

  std::mutex mutex_;
  BufferedFile file_;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<Sink> make_json_lines_sink(const FileSinkOptions& options) {
  return std::make_unique<JsonLinesSink>(options);
}

}  // namespace kith::telemetry

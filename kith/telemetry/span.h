#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include "kith/telemetry/sink.h"

namespace kith::telemetry {

struct SpanOptions {
  std::string_view name;
  std::string_view category;
  WorkerId worker;
  std::string_view track = "main";
};

// An event that lasts as long as this object. With a null sink it reads no clock and allocates nothing.
// REQUIRES: sink and clock outlive the span. One thread at a time.
class Span {
 public:
  Span(Sink* sink, const Clock& clock, const SpanOptions& options) : sink_(sink), clock_(clock) {
    if (!sink_) return;
    event_ = Event{.name = std::string(options.name),
                   .category = std::string(options.category),
                   .worker = options.worker,
                   .track = std::string(options.track),
                   .start = clock.now(),
                   .duration = {},
                   .args = {}};
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() {
    if (!sink_) return;
    event_->duration = clock_.now() - event_->start;
    sink_->record(*event_);
  }

  // Attaches a number or a text.
  void arg(std::string_view name, std::integral auto value) {
    attach(name, static_cast<std::int64_t>(value));
  }
  void arg(std::string_view name, std::floating_point auto value) {
    attach(name, static_cast<double>(value));
  }
  void arg(std::string_view name, std::string_view value) {
    if (sink_) attach(name, std::string(value));
  }

 private:
  void attach(std::string_view name, Value value) {
    if (sink_) event_->args.emplace_back(std::string(name), std::move(value));
  }

  Sink* const sink_;
  const Clock& clock_;
  std::optional<Event> event_;  // set exactly when there is a sink
};

}  // namespace kith::telemetry

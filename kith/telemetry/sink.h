#pragma once

#include "kith/telemetry/event.h"

namespace kith::telemetry {

// Where events go. Whoever tells takes a Sink*, null for nobody listening. Safe from any thread; never throws
// and never waits for more than a file write: telemetry does not fail or hold up what it observes.
class Sink {
 public:
  virtual ~Sink() = default;

  virtual void record(const Event& event) = 0;
  virtual void record(const CounterSample& sample) = 0;
  // Sinks that draw no arrows leave it out.
  virtual void record(const FlowEnd&) {}
  // Makes everything recorded so far visible to readers of the file. Destruction flushes too.
  virtual void flush() = 0;
};

}  // namespace kith::telemetry

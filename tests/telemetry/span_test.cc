#include "kith/telemetry/span.h"

#include <vector>

#include <gtest/gtest.h>

namespace kith::telemetry {
namespace {

class SteppingClock final : public Clock {
 public:
  Time now() const override { return Time(std::chrono::milliseconds(10 * ++reads_)); }
  int reads() const { return reads_; }

 private:
  mutable int reads_ = 0;
};

class MemorySink final : public Sink {
 public:
  void record(const Event& event) override { events.push_back(event); }
  void record(const CounterSample&) override {}
  void flush() override {}

  std::vector<Event> events;
};

TEST(Span, RecordsWhatWhereWhenAndHowLong) {
  MemorySink sink;
  const SteppingClock clock;
  {
    Span span(&sink, clock, {.name = "mix", .category = "gossip", .worker = WorkerId{3}, .track = "comm"});
    span.arg("bytes", 25);
    span.arg("weight", 0.5);
    span.arg("peer", "worker 4");
    EXPECT_TRUE(sink.events.empty());
  }
  ASSERT_EQ(sink.events.size(), 1u);
  const Event& event = sink.events.front();
  EXPECT_EQ(event.name, "mix");
  EXPECT_EQ(event.category, "gossip");
  EXPECT_EQ(event.worker, WorkerId{3});
  EXPECT_EQ(event.track, "comm");
  EXPECT_EQ(event.start, Clock::Time(std::chrono::milliseconds(10)));
  EXPECT_EQ(event.duration, std::chrono::milliseconds(10));
  const Args expected{{"bytes", std::int64_t{25}}, {"weight", 0.5}, {"peer", std::string("worker 4")}};
  EXPECT_EQ(event.args, expected);
}

TEST(Span, WithoutASinkReadsNoClock) {
  const SteppingClock clock;
  {
    Span span(nullptr, clock, {.name = "mix", .category = "gossip", .worker = WorkerId{3}});
    span.arg("bytes", 25);
  }
  EXPECT_EQ(clock.reads(), 0);
}

}  // namespace
}  // namespace kith::telemetry

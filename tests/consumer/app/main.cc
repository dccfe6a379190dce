#include <cstdio>
#include <memory>

#include "kith/graph/schedule.h"
#include "kith/telemetry/counters.h"

int main() {
  kith::graph::ScheduleOptions options;
  options.topology = "exp";
  options.shape = kith::graph::Shape::single_node(8);
  const auto schedule = kith::graph::make_schedule(options);

  kith::telemetry::Counters counters;
  for (int t = 0; t < schedule->period(); ++t) {
    counters.at("reads").add(
        static_cast<std::int64_t>(kith::graph::reads_of(schedule->round(0, t), 0).size()));
  }
  std::printf("exp over %d workers: %lld reads in a period of %lld\n", schedule->workers(),
              static_cast<long long>(counters.at("reads").value()),
              static_cast<long long>(schedule->period()));
  return counters.at("reads").value() == 3 ? 0 : 1;
}

#include "kith/telemetry/counters.h"

namespace kith::telemetry {

Counter& Counters::at(std::string_view name) {
  const std::lock_guard lock(mutex_);
  auto found = counters_.find(name);
  if (found == counters_.end()) {
    found = counters_.emplace(std::string(name), std::make_unique<Counter>()).first;
  }
  return *found->second;
}

CounterSample Counters::sample(std::string_view name, WorkerId worker, Clock::Time time) const {
  CounterSample sample{.name = std::string(name), .worker = worker, .time = time, .values = {}};
  const std::lock_guard lock(mutex_);
  for (const auto& [key, counter] : counters_)
    sample.values.emplace_back(key, counter->value());
  return sample;
}

}  // namespace kith::telemetry

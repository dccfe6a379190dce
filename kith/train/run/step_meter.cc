#include "kith/train/run/step_meter.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

#include <unistd.h>

#include "kith/base/host_name.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

constexpr auto kPause = std::chrono::seconds(1);
constexpr std::size_t kMostPeers = 16;  // a line stays short however many workers take part

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "?";
}

}  // namespace

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

StartMetrics start_of(const engine::WorldParts& world, std::int64_t step) {
  const auto& workers = world.transport->workers();
  const auto index = std::ranges::find(workers, world.self()) - workers.begin();
  const double pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES));
  StartMetrics start;
  start.step = step;
  start.time = unix_time();
  start.worker = world.self();
  start.workers = world.size();
  start.machine = world.transport->machines().at(static_cast<std::size_t>(index));
  start.backend = world.transport->backend();
  start.environment = {{"host", host_name()},
                       {"process", cat(::getpid())},
                       {"cpu", cpu_name()},
                       {"cores", cat(::sysconf(_SC_NPROCESSORS_ONLN))},
                       {"memory", human_bytes(pages * static_cast<double>(::sysconf(_SC_PAGE_SIZE)))}};
  return start;
}

StepMeter::StepMeter(const engine::WorldParts& world, double units_per_step, std::size_t parameters)
    : world_(world), units_per_step_(units_per_step), parameters_(parameters) {}

void StepMeter::begin() {
  start_ = world_.clock->now();
  before_ = world_.transport->ledger();
}

void StepMeter::end(StepMetrics& m, const engine::StepReport& report) const {
  m.step = report.step + 1;
  m.time = unix_time();
  m.view = report.view;
  m.skipped = report.skipped;
  m.seconds = seconds(world_.clock->now() - start_);
  m.waited_seconds = seconds(report.waited);
  m.units_per_second = m.seconds > 0 ? units_per_step_ / m.seconds : 0;
  m.bytes_read = report.bytes_read;
  m.bytes_published = report.bytes_published;
  m.consensus = report.consensus.distance(parameters_);
  m.late = report.late;
  m.lost = report.lost;
  for (const auto& [peer, now] : world_.transport->ledger()) {
    const auto earlier = before_.find(peer);
    const comm::PeerLedger then = earlier == before_.end() ? comm::PeerLedger{} : earlier->second;
    m.held_up_seconds += seconds(now.held_up - then.held_up);
    if (now.arrivals != then.arrivals || now.waited != then.waited)
      m.peers.push_back({peer, seconds(now.waited - then.waited), now.bytes_read - then.bytes_read});
  }
  if (m.peers.size() <= kMostPeers) return;
  std::ranges::stable_sort(m.peers, std::greater<>(), &PeerMetrics::waited_seconds);
  m.peers.resize(kMostPeers);
}

std::optional<LinkMetrics> StepMeter::links(std::int64_t step, bool at_once) {
  const Clock::Time now = world_.clock->now();
  if (!at_once && told_ && now - *told_ < kPause) return std::nullopt;
  told_ = now;
  return LinkMetrics{step, unix_time(), world_.transport->ledger()};
}

}  // namespace kith::train

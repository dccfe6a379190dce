#include "bench/scale/counted.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "kith/base/clock.h"
#include "kith/base/error.h"
#include "kith/base/log.h"
#include "kith/base/text.h"
#include "kith/comm/inproc/world.h"
#include "kith/engine/engine.h"

namespace kith::bench {

class CountedTransport::CountedWindow final : public comm::Window {
 public:
  CountedWindow(std::unique_ptr<comm::Window> inner, const Wire& wire, Counted& counted)
      : inner_(std::move(inner)), wire_(wire), counted_(counted) {}

  const comm::WindowOptions& options() const override { return inner_->options(); }
  std::span<std::byte> slot(Version v) override { return inner_->slot(v); }
  std::variant<std::span<std::byte>, comm::Late> begin(Version v, Deadline deadline) override {
    return inner_->begin(v, deadline);
  }
  void publish(Version v, const comm::PublishOptions& options) override {
    const std::uint64_t bytes = options.bytes * options.readers.size();
    counted_.messages += options.readers.size();
    counted_.bytes += bytes;
    counted_.time_s += static_cast<double>(bytes) / wire_.bytes_per_s;
    comm::PublishOptions timed = options;
    timed.time = Clock::Time(std::chrono::nanoseconds(1 + std::llround(counted_.time_s * 1e9)));
    inner_->publish(v, timed);
  }
  comm::Outcome await(WorkerId peer, Version v, Deadline deadline) override {
    comm::Outcome outcome = inner_->await(peer, v, deadline);
    if (const auto* const arrival = std::get_if<comm::Arrival>(&outcome)) {
      const double sent_s = seconds(arrival->header().published.time_since_epoch());
      counted_.time_s = std::max(counted_.time_s, sent_s + wire_.latency_s);
    }
    return outcome;
  }
  comm::Outcome newest(WorkerId peer, std::optional<Version> after, Deadline deadline) override {
    return inner_->newest(peer, after, deadline);
  }
  void skip(WorkerId peer, Version v) override { inner_->skip(peer, v); }

 private:
  const std::unique_ptr<comm::Window> inner_;
  const Wire wire_;
  Counted& counted_;
};

std::unique_ptr<comm::Window> CountedTransport::open(const comm::WindowOptions& options, Deadline deadline) {
  std::unique_ptr<comm::Window> window = inner_.open(options, deadline);
  ++counted_.windows;
  for (const WorkerId peer : window->options().peers)
    ++counted_.peers[peer];
  return std::make_unique<CountedWindow>(std::move(window), wire_, counted_);
}

namespace {

// What everybody has done when its model is the first worker's.
Counted start_one(comm::InprocWorld& world, int worker, const std::string& topology, int parameters,
                  const Wire& wire) {
  const auto transport = world.join(WorkerId{worker});
  CountedTransport counted(*transport, wire);
  const SteadyClock clock;
  NullLog log;
  engine::WorldParts parts{&counted, nullptr, Members::first(static_cast<int>(world.workers().size())),
                           &clock, &log};
  const auto count = static_cast<std::size_t>(parameters);
  std::vector<float> model(count, static_cast<float>(worker + 1));
  engine::EngineOptions options;
  options.algorithm = "awc";
  options.optimizer.name = "sgd";
  options.schedule.topology = topology;
  options.schedule.shape = graph::Shape::single_node(parts.size());
  options.patience = std::chrono::minutes(20);
  engine::Engine engine(std::move(parts), options, {{"p", model.data(), count, DType::f32, count}});
  engine.start();
  const float* const now = static_cast<const float*>(engine.data(0));
  if (now[0] != 1 || now[count - 1] != 1) throw Error(cat("the first model is ", now[0], ", not 1"));
  const Counted result = counted.counted();
  engine.gather(0);  // nobody leaves while others begin
  return result;
}

}  // namespace

CountedStart count_start(int workers, const std::string& topology, int parameters, const Wire& wire) {
  const auto world = comm::InprocWorld::create(workers);
  CountedStart start;
  std::exception_ptr failure;
  std::mutex mutex;  // guards both
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      try {
        const Counted one = start_one(*world, worker, topology, parameters, wire);
        const std::lock_guard lock(mutex);
        start.windows += one.windows / static_cast<double>(workers);
        start.messages += static_cast<double>(one.messages) / workers;
        start.most_peers = std::max(start.most_peers, static_cast<int>(one.peers.size()));
        start.most_bytes = std::max(start.most_bytes, one.bytes);
        start.time_s = std::max(start.time_s, one.time_s);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  if (failure) std::rethrow_exception(failure);
  return start;
}

}  // namespace kith::bench

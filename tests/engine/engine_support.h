#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kith/base/log.h"
#include "kith/base/rng.h"
#include "kith/engine/engine.h"
#include "tests/support/async_device.h"
#include "tests/support/device_windows.h"
#include "tests/support/worlds.h"

namespace kith::engine {

// Where a test's model lies.
//   host      plain memory
//   windows   an asynchronous device whose memory the windows lie in
//   copies    an asynchronous device, windows in host memory
//   gpu       a real one, in builds that have it; its windows are the transport's business
enum class Memory { host, windows, copies, gpu };

// gpu.cc or no_gpu.cc. The first is empty where this build has no GPUs.
std::vector<Memory> gpu_memories();
std::unique_ptr<kernels::Device> make_gpu();

inline std::unique_ptr<kernels::Device> make_device(Memory memory, int rank) {
  switch (memory) {
    case Memory::host:
      return nullptr;
    case Memory::gpu:
      return make_gpu();
    default:
      return std::make_unique<support::AsyncDevice>(hash_words(5, rank));
  }
}

// A model of a few parameters whose gradient on worker i is x - target_i: everybody pulls elsewhere, so that
// mixing matters. The gradient is work of the device, and reading the model waits for it.
template <class T>
class Quadratic {
 public:
  Quadratic(support::Worker& worker, EngineOptions options, std::vector<std::size_t> sizes = {7, 1, 40, 16},
            Memory memory = Memory::host, gossip::MakeDeviceReducers reducers = gossip::make_device_reducers)
      : own_device_(make_device(memory, worker.rank)),
        sizes_(std::move(sizes)),
        transport_(worker.transport),
        world_{memory == Memory::windows ? &transport_ : &worker.transport,
               &worker.store,
               Members::first(worker.size),
               &clock_,
               &log_,
               nullptr,
               std::move(reducers)},
        kernels_(kernels::make_kernels<T>(queue())) {
    world_.extensible = dynamic_cast<comm::ExtensibleTransport*>(&worker.transport);
    world_.newcomer = worker.rank >= worker.size;
    if (world_.newcomer) world_.members = {0, worker.transport.workers()};
    Rng rng(hash_words(3, worker.rank));
    std::vector<Segment> segments;
    for (std::size_t size : sizes_) {
      std::vector<T> parameter(size), target(size);
      for (T& value : parameter)
        value = static_cast<T>(rng.uniform());
      for (T& value : target)
        value = static_cast<T>(rng.uniform() * 4 - 2);
      parameters_.push_back(on_device(parameter));
      targets_.push_back(on_device(target));
      gradients_.push_back(device().allocate(size * sizeof(T)));
      segments.push_back({cat("p", segments.size()), parameters_.back().data(), size, dtype_of<T>(), size});
    }
    inputs_.resize(sizes_.size());
    options.schedule.shape = options.schedule.shape.workers() == worker.size
                                 ? options.schedule.shape
                                 : graph::Shape::single_node(worker.size);
    if (options.patience == EngineOptions{}.patience) options.patience = std::chrono::seconds(30);
    engine_ = std::make_unique<Engine>(world_, options, segments, device());
  }

  Engine& engine() { return *engine_; }
  std::vector<SegmentInput>& inputs() { return inputs_; }
  kernels::Device& device() { return own_device_ ? *own_device_ : kernels::host_device(); }
  kernels::Queue& queue() { return device().compute(); }

  // Gradients at the current model; `lr` for all.
  void backward(double lr = 0.1) {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const std::array<kernels::Source, 2> difference{kernels::Source{engine_->data(i), dtype_of<T>(), 1},
                                                      kernels::Source{targets_[i].data(), dtype_of<T>(), -1}};
      kernels_->mix({gradients_[i].template as<T>(), nullptr, {}}, {difference, 1}, sizes_[i]);
      inputs_[i] = {gradients_[i].data(), dtype_of<T>(), lr, 0.01};
    }
  }

  // Sets one element of a gradient.
  void spoil(std::size_t segment, T value) {
    queue().copy_now(gradients_[segment].data(), &value, sizeof(T));
  }

  StepReport step(const StepOptions& options = {}) {
    backward();
    return engine_->step(inputs_, options);
  }

  // The whole model, in the order of the table.
  std::vector<T> model() {
    std::vector<T> all;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      std::vector<T> part(sizes_[i]);
      queue().copy_now(part.data(), engine_->data(i), part.size() * sizeof(T));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

 private:
  kernels::Buffer on_device(const std::vector<T>& values) {
    kernels::Buffer buffer = device().allocate(values.size() * sizeof(T));
    queue().copy_now(buffer.data(), values.data(), buffer.bytes());
    return buffer;
  }

  const std::unique_ptr<kernels::Device> own_device_;  // null: the host
  const std::vector<std::size_t> sizes_;
  const SteadyClock clock_;
  NullLog log_;
  support::DeviceTransport transport_;
  WorldParts world_;
  const std::unique_ptr<kernels::Kernels<T>> kernels_;
  std::vector<kernels::Buffer> parameters_;
  std::vector<kernels::Buffer> gradients_;
  std::vector<kernels::Buffer> targets_;
  std::vector<SegmentInput> inputs_;
  std::unique_ptr<Engine> engine_;
};

inline EngineOptions options_for(const std::string& algorithm, const std::string& optimizer,
                                 const std::string& topology) {
  EngineOptions options;
  options.algorithm = algorithm;
  options.optimizer.name = optimizer;
  options.optimizer.momentum = optimizer == "sgd" ? 0.9 : 0;
  options.schedule.topology = topology;
  options.bucket_bytes = 100;  // several buckets
  options.stagger = false;     // so that their number changes nothing
  return options;
}

template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string text;
  for (T value : values)
    text += cat(std::hexfloat, value, " ");
  return text;
}

// Steps `steps` times and returns the model.
template <class T>
std::vector<T> train_worker(support::Worker& worker, const EngineOptions& options, int steps,
                            Memory memory = Memory::host) {
  Quadratic<T> quadratic(worker, options, {7, 1, 40, 16}, memory);
  quadratic.engine().start();
  for (int t = 0; t < steps; ++t) {
    const StepReport report = quadratic.step();
    EXPECT_TRUE(report.late.empty() && report.lost.empty());
    EXPECT_EQ(report.step, t);
  }
  return quadratic.model();
}

// Everybody's model as exact text.
template <class T>
std::vector<std::string> train(const std::string& backend, int workers, const EngineOptions& options,
                               int steps, Memory memory = Memory::host) {
  return support::run_world(backend, workers, [&](support::Worker& worker) {
    return text_of(train_worker<T>(worker, options, steps, memory));
  });
}

}  // namespace kith::engine

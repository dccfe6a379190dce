#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kith/base/log.h"
#include "kith/base/rng.h"
#include "kith/engine/engine.h"
#include "tests/support/worlds.h"

namespace kith::engine {

// A model of a few parameters whose gradient on worker i is x - target_i: everybody pulls elsewhere, so that
// mixing matters.
template <class T>
class Quadratic {
 public:
  Quadratic(support::Worker& worker, EngineOptions options, std::vector<std::size_t> sizes = {7, 1, 40, 16})
      : world_{&worker.transport, &worker.store, Members::first(worker.size), &clock_, &log_, nullptr} {
    Rng rng(hash_words(3, worker.rank));
    for (std::size_t size : sizes) {
      parameters_.emplace_back(size);
      gradients_.emplace_back(size);
      targets_.emplace_back(size);
      for (T& value : parameters_.back())
        value = static_cast<T>(rng.uniform());
      for (T& value : targets_.back())
        value = static_cast<T>(rng.uniform() * 4 - 2);
    }
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      segments.push_back({cat("p", i), parameters_[i].data(), sizes[i], dtype_of<T>(), sizes[i]});
    }
    inputs_.resize(sizes.size());
    options.schedule.shape = options.schedule.shape.workers() == worker.size
                                 ? options.schedule.shape
                                 : graph::Shape::single_node(worker.size);
    options.patience = std::chrono::seconds(30);
    engine_ = std::make_unique<Engine>(world_, options, segments);
  }

  Engine& engine() { return *engine_; }
  T* parameter(std::size_t i) { return static_cast<T*>(engine_->data(i)); }
  std::vector<SegmentInput>& inputs() { return inputs_; }

  // Gradients at the current model; `lr` for all.
  void backward(double lr = 0.1) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      for (std::size_t k = 0; k < gradients_[i].size(); ++k)
        gradients_[i][k] = parameter(i)[k] - targets_[i][k];
      inputs_[i] = {gradients_[i].data(), dtype_of<T>(), lr, 0.01};
    }
  }

  StepReport step(const StepOptions& options = {}) {
    backward();
    return engine_->step(inputs_, options);
  }

  // The whole model, in the order of the table.
  std::vector<T> model() {
    std::vector<T> all;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      all.insert(all.end(), parameter(i), parameter(i) + gradients_[i].size());
    }
    return all;
  }

 private:
  const SteadyClock clock_;
  NullLog log_;
  World world_;
  std::vector<std::vector<T>> parameters_;
  std::vector<std::vector<T>> gradients_;
  std::vector<std::vector<T>> targets_;
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
std::vector<T> train_worker(support::Worker& worker, const EngineOptions& options, int steps) {
  Quadratic<T> quadratic(worker, options);
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
                               int steps) {
  return support::run_world(backend, workers, [&](support::Worker& worker) {
    return text_of(train_worker<T>(worker, options, steps));
  });
}

}  // namespace kith::engine

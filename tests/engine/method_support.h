#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kith/base/rng.h"
#include "kith/graph/matrix.h"
#include "tests/engine/engine_support.h"
#include "tests/train/plain_recursion.h"

namespace kith::engine {

inline constexpr std::size_t kElements = 32;  // two segments without padding

// Where worker i pulls to: its gradient is x - target_i.
inline plain::Vector target_of(int worker) {
  Rng rng(hash_words(17, worker));
  plain::Vector target(kElements);
  for (double& value : target)
    value = rng.uniform() * 4 - 2;
  return target;
}

inline plain::Vector mean_target(int workers) {
  plain::Vector mean(kElements, 0.0);
  for (int i = 0; i < workers; ++i) {
    for (std::size_t e = 0; e < kElements; ++e)
      mean[e] += target_of(i)[e] / workers;
  }
  return mean;
}

inline graph::ScheduleOptions sun_schedule(int workers) {
  return {.topology = "sun-rotating", .shape = graph::Shape::single_node(workers)};
}

// The quadratic, on the rounds of a schedule.
inline plain::Problem quadratic_problem(int workers, int steps, const graph::ScheduleOptions& options) {
  plain::Problem problem;
  problem.workers = workers;
  problem.steps = steps;
  problem.start = plain::Vector(kElements, 0.5);
  problem.gradient = [](int worker, int, const plain::Vector& x) {
    plain::Vector gradient = x;
    const plain::Vector target = target_of(worker);
    for (std::size_t e = 0; e < x.size(); ++e)
      gradient[e] -= target[e];
    return gradient;
  };
  problem.mixing = [schedule = std::shared_ptr(graph::make_schedule(options))](int round) {
    const Eigen::MatrixXd w = graph::mixing_matrix(*schedule, round);
    plain::Matrix rows(static_cast<std::size_t>(w.rows()));
    for (Eigen::Index i = 0; i < w.rows(); ++i)
      for (Eigen::Index j = 0; j < w.cols(); ++j)
        rows[static_cast<std::size_t>(i)].push_back(w(i, j));
    return rows;
  };
  return problem;
}

// Every worker's model after the problem's steps, by the engine.
inline std::vector<plain::Vector> train_problem(const std::string& backend, EngineOptions options,
                                                const plain::Problem& problem, double lr) {
  options.schedule.shape = graph::Shape::single_node(problem.workers);
  options.patience = std::chrono::seconds(30);
  const auto texts = support::run_world(backend, problem.workers, [&](support::Worker& worker) {
    const SteadyClock clock;
    NullLog log;
    const WorldParts world{
        &worker.transport, &worker.store, Members::first(worker.size), &clock, &log, nullptr};
    plain::Vector parameter = problem.start;
    const std::size_t half = kElements / 2;
    Engine engine(world, options,
                  {{"a", parameter.data(), half, DType::f64, half},
                   {"b", parameter.data() + half, kElements - half, DType::f64, kElements - half}});
    engine.start();
    const auto model = [&] {
      plain::Vector all(kElements);
      std::copy_n(static_cast<const double*>(engine.data(0)), half, all.begin());
      std::copy_n(static_cast<const double*>(engine.data(1)), kElements - half, all.begin() + half);
      return all;
    };
    for (int t = 0; t < problem.steps; ++t) {
      const plain::Vector gradient = problem.gradient(worker.rank, t, model());
      const std::vector<SegmentInput> inputs{{gradient.data(), DType::f64, lr, 0},
                                             {gradient.data() + half, DType::f64, lr, 0}};
      const StepReport report = engine.step(inputs, {});
      EXPECT_TRUE(report.late.empty() && report.lost.empty());
    }
    return text_of(model());
  });
  std::vector<plain::Vector> models;
  for (const std::string& text : texts) {
    plain::Vector& model = models.emplace_back();
    const char* at = text.c_str();
    for (char* end = nullptr; model.size() < kElements; at = end)
      model.push_back(std::strtod(at, &end));
  }
  return models;
}

inline double largest_difference(const plain::Vector& a, const plain::Vector& b) {
  double largest = 0;
  for (std::size_t e = 0; e < a.size(); ++e)
    largest = std::max(largest, std::abs(a[e] - b[e]));
  return largest;
}

}  // namespace kith::engine

// One graph for every round: ring-static, exp-static, hypercube, torus, star.
#include "kith/graph/topologies/static_schedule.h"
#include "kith/graph/topologies/topologies.h"

namespace kith::graph {
namespace {

using Edges = std::vector<std::pair<Rank, Rank>>;

std::unique_ptr<Schedule> make(const ScheduleOptions& options, const char* name, Edges edges) {
  return std::make_unique<StaticSchedule>(name, options.shape, std::move(edges));
}

}  // namespace

std::unique_ptr<Schedule> make_ring_static(const ScheduleOptions& options) {
  const int n = options.shape.workers();
  Edges edges;
  for (Rank i = 0; i < n; ++i)
    edges.emplace_back(i, (i + 1) % n);
  return make(options, "ring-static", std::move(edges));
}

std::unique_ptr<Schedule> make_exp_static(const ScheduleOptions& options) {
  const std::int64_t n = options.shape.workers();
  Edges edges;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t hop = 1; hop < n; hop *= 2)
      edges.emplace_back(i, (i + hop) % n);
  }
  return make(options, "exp-static", std::move(edges));
}

// Where n is not a power of two the corners beyond n are missing; clearing bits still leads everybody to 0.
std::unique_ptr<Schedule> make_hypercube(const ScheduleOptions& options) {
  const std::int64_t n = options.shape.workers();
  Edges edges;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t bit = 1; bit < n; bit *= 2) {
      if ((i ^ bit) < n) edges.emplace_back(i, i ^ bit);
    }
  }
  return make(options, "hypercube", std::move(edges));
}

// The rectangle nearest to a square; a prime number of workers gives one row, which is the ring.
std::unique_ptr<Schedule> make_torus(const ScheduleOptions& options) {
  const std::int64_t n = options.shape.workers();
  std::int64_t rows = 1;
  for (std::int64_t r = 2; r * r <= n; ++r) {
    if (n % r == 0) rows = r;
  }
  const std::int64_t columns = n / rows;
  Edges edges;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = i / columns, column = i % columns;
    edges.emplace_back(i, row * columns + (column + 1) % columns);
    edges.emplace_back(i, (row + 1) % rows * columns + column);
  }
  return make(options, "torus", std::move(edges));
}

std::unique_ptr<Schedule> make_star(const ScheduleOptions& options) {
  Edges edges;
  for (Rank i = 1; i < options.shape.workers(); ++i)
    edges.emplace_back(0, i);
  return make(options, "star", std::move(edges));
}

}  // namespace kith::graph

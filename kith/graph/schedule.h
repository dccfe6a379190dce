#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kith/base/ids.h"
#include "kith/graph/shape.h"

namespace kith::graph {

// One entry of a row of the mixing matrix: "rank's model, times weight".
struct Term {
  Rank rank = 0;
  double weight = 0;
};

// How a round is executed for one worker.
//   group       the members replace their models by the members' plain mean (a pair is a group of two,
//               an idle worker a group of one)
//   neighbours  a weighted sum of one's own and the in-neighbours' models; directed when the two lists differ
enum class Form { group, neighbours };

// One worker's part in round t: row `rank` of W_t, and who has that worker in their row. Costs O(degree).
struct WorkerRound {
  Form form = Form::group;
  std::vector<Rank> group{};     // form group: members ascending, oneself included
  double self_weight = 1;        // form neighbours
  std::vector<Term> reads{};     // form neighbours: ascending by rank, without oneself
  std::vector<Rank> readers{};   // form neighbours: who reads this worker, ascending, without itself
  std::vector<double> shares{};  // directed schedules, form neighbours: what each reader takes of this worker
};

// The row as terms ascending by rank, oneself included, whatever the form.
std::vector<Term> row_of(const WorkerRound& round, Rank self);
// Everybody this worker reads from, and everybody who reads this worker; ascending, without itself.
std::vector<Rank> reads_of(const WorkerRound& round, Rank self);
std::vector<Rank> readers_of(const WorkerRound& round, Rank self);
// Who reads this worker and how much of it each takes: its column, ascending, without itself.
// REQUIRES: a directed schedule's round.
std::vector<Term> shares_of(const WorkerRound& round, Rank self);

// The sequence of rounds of a topology over a fixed number of workers. A schedule is immutable, `round` is a
// pure function of (construction arguments, rank, t): any process computes the same rounds, without talking
// to anybody. Thread-safe.
class Schedule {
 public:
  virtual ~Schedule() = default;

  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }
  int workers() const { return shape_.workers(); }

  // round(rank, t) == round(rank, t + period()) for every t >= 0. At least 1.
  virtual std::int64_t period() const = 0;
  // True when the matrices are only column-stochastic (for push-sum); else they are doubly stochastic.
  virtual bool directed() const { return false; }
  // REQUIRES: 0 <= rank < workers(), t >= 0.
  virtual WorkerRound round(Rank rank, std::int64_t t) const = 0;

 protected:
  Schedule(std::string name, Shape shape) : name_(std::move(name)), shape_(std::move(shape)) {}

 private:
  const std::string name_;
  const Shape shape_;
};

struct ScheduleOptions {
  std::string topology = "complete";
  Shape shape = Shape::single_node(1);
  std::uint64_t seed = 0;  // topologies that draw
  int degree = 1;          // base: peers per round (the k of base-(k+1)); random-directed: out-neighbours
  double edge_probability = 0;  // erdos-renyi; 0 picks 2 ln(n) / n
  int centres = 1;              // sun: size of the centre set
  std::string file{};           // topology "file": path of the JSON
};

// Throws InputError (unknown name with a suggestion, a bad file, options out of range).
std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options);

// Every name make_schedule takes, in the order of the documentation.
std::vector<std::string> schedule_names();

}  // namespace kith::graph

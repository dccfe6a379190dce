#include <algorithm>
#include <numeric>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/graph/topologies/topologies.h"

namespace kith::graph {
namespace {

// Every centre is joined to everybody, nobody else to anybody. W = I - Laplacian/n: every edge weighs 1/n,
// and the second singular value is exactly 1 - centres/n, which is what these graphs are for.
class Sun final : public Schedule {
 public:
  // `step` ranks further each round; 0 stands still.
  Sun(const char* name, const Shape& shape, int centres, int step)
      : Schedule(name, shape), centres_(centres), step_(step) {}

  std::int64_t period() const override { return step_ == 0 ? 1 : workers() / std::gcd(workers(), step_); }

  WorkerRound round(Rank rank, std::int64_t t) const override {
    const int n = workers();
    const int first = static_cast<int>(t % period() * step_ % n);
    if (centres_ == n || n == 1) return everybody();
    WorkerRound out;
    out.form = Form::neighbours;
    const bool centre = (rank - first + n) % n < centres_;
    const double weight = 1.0 / n;
    if (centre) {
      for (Rank i = 0; i < n; ++i)
        out.readers.push_back(i);
    } else {
      for (int i = 0; i < centres_; ++i)
        out.readers.push_back((first + i) % n);
      std::sort(out.readers.begin(), out.readers.end());
    }
    std::erase(out.readers, rank);
    for (Rank other : out.readers)
      out.reads.push_back({other, weight});
    out.self_weight = static_cast<double>(n - static_cast<int>(out.readers.size())) / n;
    return out;
  }

 private:
  WorkerRound everybody() const {
    WorkerRound out;
    out.group.resize(static_cast<std::size_t>(workers()));
    std::iota(out.group.begin(), out.group.end(), 0);
    return out;
  }

  const int centres_;
  const int step_;
};

int checked_centres(const ScheduleOptions& options) {
  const int n = options.shape.workers();
  if (options.centres < 1 || options.centres > n) {
    throw InputError(cat(options.centres, " centres"), options.topology,
                     cat("from 1 to the ", n, " workers"));
  }
  return options.centres;
}

}  // namespace

std::unique_ptr<Schedule> make_sun(const ScheduleOptions& options) {
  return std::make_unique<Sun>("sun", options.shape, checked_centres(options), 0);
}

std::unique_ptr<Schedule> make_sun_rotating(const ScheduleOptions& options) {
  const int centres = checked_centres(options);
  return std::make_unique<Sun>("sun-rotating", options.shape, centres, centres);
}

}  // namespace kith::graph

#include "kith/observe/curve.h"

#include <algorithm>
#include <cmath>

namespace kith::observe {
namespace {

constexpr std::size_t kMostPoints = 1024;

void add(CurvePoint& to, const CurvePoint& from) {
  to.step = std::max(to.step, from.step);
  to.time = std::max(to.time, from.time);
  to.lines += from.lines;
  to.seconds += from.seconds;
  to.waited += from.waited;
  to.units += from.units;
  to.bytes_read += from.bytes_read;
  to.loss += from.loss;
  to.losses += from.losses;
  to.squared_consensus += from.squared_consensus;
  to.consensus_told += from.consensus_told;
}

}  // namespace

void Curve::halve() {
  for (std::size_t k = 0; k < points_.size(); ++k) {
    CurvePoint& to = points_[k / 2];
    if (k % 2 == 1) {
      observe::add(to, points_[k]);
    } else if (k > 0) {
      to = points_[k];
    }
  }
  points_.resize((points_.size() + 1) / 2);
  stride_ *= 2;
}

void Curve::add(const StepLine& line) {
  if (line.step < 1) return;
  while (static_cast<std::size_t>((line.step - 1) / stride_) >= kMostPoints)
    halve();
  const auto k = static_cast<std::size_t>((line.step - 1) / stride_);
  if (k >= points_.size()) points_.resize(k + 1);
  CurvePoint one{.step = line.step, .time = line.time, .lines = 1};
  one.seconds = line.seconds;
  one.waited = line.waited;
  one.units = line.units_per_second * line.seconds;
  one.bytes_read = line.bytes_read;
  if (std::isfinite(line.loss)) {
    one.loss = line.loss;
    one.losses = 1;
  }
  if (std::isfinite(line.consensus)) {
    one.squared_consensus = line.consensus * line.consensus;
    one.consensus_told = 1;
  }
  observe::add(points_[k], one);
}

std::vector<CurvePoint> Curve::points() const {
  std::vector<CurvePoint> some;
  std::ranges::copy_if(points_, std::back_inserter(some), [](const CurvePoint& p) { return p.lines > 0; });
  return some;
}

}  // namespace kith::observe

#pragma once

#include <cstdint>
#include <vector>

#include "kith/observe/line.h"

namespace kith::observe {

// What all workers did in some steps that follow each other.
struct CurvePoint {
  std::int64_t step = 0;                                      // the last of them that anybody has done
  double time = 0;                                            // when that was
  double lines = 0;                                           // worker-steps
  double seconds = 0, waited = 0, units = 0, bytes_read = 0;  // sums over them
  double loss = 0, losses = 0;                                // sum, and of how many
  double squared_consensus = 0, consensus_told = 0;           // likewise

  double mean_loss() const { return losses > 0 ? loss / losses : 0; }
};

// A run over its steps, in at most 1024 points however long it is: a point stands for as many steps as that
// takes.
class Curve {
 public:
  void add(const StepLine& line);
  // In the order of the steps, those without lines left out.
  std::vector<CurvePoint> points() const;
  std::int64_t steps_per_point() const { return stride_; }

 private:
  void halve();

  std::int64_t stride_ = 1;
  std::vector<CurvePoint> points_;  // point k: steps k*stride + 1 .. (k+1)*stride
};

}  // namespace kith::observe

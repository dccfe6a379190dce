#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "kith/graph/schedule.h"

namespace kith::graph {

// W_t: row i says what worker i's model becomes. O(n^2) memory: for tests, spectra and pictures, not for
// training.
Eigen::MatrixXd mixing_matrix(const Schedule& schedule, std::int64_t t);

// How far a matrix is from being stochastic.
struct Stochasticity {
  double row_error = 0;     // largest |row sum - 1|
  double column_error = 0;  // largest |column sum - 1|
  double least_entry = 0;
  double asymmetry = 0;  // largest |w_ij - w_ji|

  static constexpr double kTolerance = 1e-12;
  bool column_stochastic(double tolerance = kTolerance) const {
    return column_error <= tolerance && least_entry >= 0;
  }
  bool doubly_stochastic(double tolerance = kTolerance) const {
    return row_error <= tolerance && column_stochastic(tolerance);
  }
  bool symmetric(double tolerance = kTolerance) const { return asymmetry <= tolerance; }
};

// REQUIRES: a square matrix of at least one row.
Stochasticity stochasticity_of(const Eigen::MatrixXd& matrix);
// The worst of every round of a period, from the entries that are not zero: O(edges) memory, any number of
// workers.
Stochasticity stochasticity_of(const Schedule& schedule);

}  // namespace kith::graph

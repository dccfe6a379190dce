#include "kith/graph/matrix.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kith/base/check.h"

namespace kith::graph {
namespace {

// REQUIRES: terms ascending by rank.
double entry(const std::vector<Term>& row, Rank rank) {
  const auto found =
      std::lower_bound(row.begin(), row.end(), rank, [](const Term& term, Rank r) { return term.rank < r; });
  return found != row.end() && found->rank == rank ? found->weight : 0;
}

}  // namespace

Eigen::MatrixXd mixing_matrix(const Schedule& schedule, std::int64_t t) {
  const int n = schedule.workers();
  Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(n, n);
  for (Rank rank = 0; rank < n; ++rank) {
    for (const Term& term : row_of(schedule.round(rank, t), rank))
      matrix(rank, term.rank) = term.weight;
  }
  return matrix;
}

Stochasticity stochasticity_of(const Eigen::MatrixXd& matrix) {
  KITH_CHECK_EQ(matrix.rows(), matrix.cols(), "a mixing matrix is square");
  return {.row_error = (matrix.rowwise().sum().array() - 1).abs().maxCoeff(),
          .column_error = (matrix.colwise().sum().array() - 1).abs().maxCoeff(),
          .least_entry = matrix.minCoeff(),
          .asymmetry = (matrix - matrix.transpose()).cwiseAbs().maxCoeff()};
}

Stochasticity stochasticity_of(const Schedule& schedule) {
  Stochasticity worst;
  worst.least_entry = 1;
  const auto n = static_cast<std::size_t>(schedule.workers());
  for (std::int64_t t = 0; t < schedule.period(); ++t) {
    std::vector<std::vector<Term>> rows;
    for (Rank rank = 0; rank < schedule.workers(); ++rank)
      rows.push_back(row_of(schedule.round(rank, t), rank));
    std::vector<double> column_sums(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      double row_sum = 0;
      for (const Term& term : rows[i]) {
        row_sum += term.weight;
        column_sums[static_cast<std::size_t>(term.rank)] += term.weight;
        worst.least_entry = std::min(worst.least_entry, term.weight);
        const double back = entry(rows[static_cast<std::size_t>(term.rank)], static_cast<Rank>(i));
        worst.asymmetry = std::max(worst.asymmetry, std::abs(term.weight - back));
      }
      worst.row_error = std::max(worst.row_error, std::abs(row_sum - 1));
    }
    for (double sum : column_sums)
      worst.column_error = std::max(worst.column_error, std::abs(sum - 1));
  }
  return worst;
}

}  // namespace kith::graph

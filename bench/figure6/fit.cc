#include "bench/figure6/fit.h"

#include <Eigen/Dense>

namespace figure6 {

Eigen::MatrixXd jacobian(const Residuals& f, const Eigen::VectorXd& x, double difference) {
  Eigen::MatrixXd columns;
  for (Eigen::Index k = 0; k < x.size(); ++k) {
    Eigen::VectorXd up = x;
    Eigen::VectorXd down = x;
    up[k] += difference;
    down[k] -= difference;
    const Eigen::VectorXd slope = (f(up) - f(down)) / (2 * difference);
    if (k == 0) columns.resize(slope.size(), x.size());
    columns.col(k) = slope;
  }
  return columns;
}

Fit minimise(const Residuals& residuals, const Eigen::VectorXd& guess, const Eigen::VectorXd& freedom,
             const Eigen::VectorXd& start, const FitOptions& options) {
  const Residuals all = [&](const Eigen::VectorXd& x) {
    const Eigen::VectorXd data = residuals(x);
    Eigen::VectorXd joined(data.size() + x.size());
    joined << data, (x - guess).cwiseQuotient(freedom);
    return joined;
  };
  Eigen::VectorXd x = start;
  Eigen::VectorXd r = all(x);
  Eigen::MatrixXd curvature;
  double damping = 1e-2;
  for (int step = 0; step < options.steps && damping < 1e6; ++step) {
    const Eigen::MatrixXd slopes = jacobian(all, x, options.difference);
    curvature = slopes.transpose() * slopes;
    bool better = false;
    while (!better && damping < 1e6) {
      Eigen::MatrixXd damped = curvature;
      damped.diagonal() *= 1 + damping;
      const Eigen::VectorXd next = x - damped.ldlt().solve(slopes.transpose() * r);
      const Eigen::VectorXd next_r = all(next);
      better = next_r.squaredNorm() < r.squaredNorm();
      damping = better ? damping / 5 : damping * 4;
      if (!better) continue;
      const bool converged = r.squaredNorm() - next_r.squaredNorm() < 1e-4 * r.squaredNorm();
      x = next;
      r = next_r;
      if (converged) damping = 1e6;
    }
  }
  const Eigen::MatrixXd slopes = jacobian(all, x, options.difference);
  return {x, r.squaredNorm(), (slopes.transpose() * slopes).inverse()};
}

}  // namespace figure6

#pragma once

#include <Eigen/Core>
#include <functional>
#include <vector>

namespace figure6 {

// residuals(x): the data's, each already divided by its standard error.
using Residuals = std::function<Eigen::VectorXd(const Eigen::VectorXd&)>;

struct FitOptions {
  int steps = 40;
  double difference = 0.01;  // of the numerical derivative
};

struct Fit {
  Eigen::VectorXd x;
  double cost = 0;             // sum of squares, prior included
  Eigen::MatrixXd covariance;  // of x, from the curvature at the minimum
};

// Levenberg-Marquardt on |residuals(x)|^2 + |(x - guess) / freedom|^2 from `start`.
Fit minimise(const Residuals& residuals, const Eigen::VectorXd& guess, const Eigen::VectorXd& freedom,
             const Eigen::VectorXd& start, const FitOptions& options);

// d f(x) / dx, by central differences; one column for each coordinate.
Eigen::MatrixXd jacobian(const Residuals& f, const Eigen::VectorXd& x, double difference);

}  // namespace figure6

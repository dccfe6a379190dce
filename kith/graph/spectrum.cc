#include "kith/graph/spectrum.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

namespace kith::graph {
namespace {

// Row-major: applying a round combines whole rows.
using Product = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Round = std::vector<std::vector<Term>>;

constexpr double kExact = 1e-12;
constexpr double kNear = 1e-6;
constexpr double kMillionth = 1e-6;
constexpr int kMostDoublings = 20;

std::vector<Round> rounds_of(const Schedule& schedule) {
  std::vector<Round> rounds(static_cast<std::size_t>(schedule.period()));
  for (std::size_t t = 0; t < rounds.size(); ++t) {
    for (Rank rank = 0; rank < schedule.workers(); ++rank) {
      rounds[t].push_back(row_of(schedule.round(rank, static_cast<std::int64_t>(t)), rank));
    }
  }
  return rounds;
}

Product applied(const Round& round, const Product& to) {
  Product out = Product::Zero(to.rows(), to.cols());
  for (Eigen::Index i = 0; i < to.rows(); ++i) {
    for (const Term& term : round[static_cast<std::size_t>(i)])
      out.row(i) += term.weight * to.row(term.rank);
  }
  return out;
}

// Dividing by the row sums is push-sum's division by the weight; without a directed round it changes nothing
// beyond rounding.
Product error_of(const Product& product) {
  Product error = product;
  error.array().colwise() /= product.rowwise().sum().array().eval();
  error.array() -= 1.0 / static_cast<double>(product.rows());
  return error;
}

double deviation_of(const Product& product) {
  const Product error = error_of(product);
  const Eigen::MatrixXd gram = error.transpose() * error;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
  return std::sqrt(std::max(0.0, solver.eigenvalues().tail(1)(0)));
}

double largest_error(const Product& product) {
  return error_of(product).cwiseAbs().maxCoeff();
}

struct FromStart {
  double contraction = 0;
  std::optional<std::int64_t> exact_after;
};

// REQUIRES: horizon at least one period.
FromStart follow(const std::vector<Round>& rounds, std::size_t start, std::size_t horizon) {
  FromStart out;
  const auto n = static_cast<Eigen::Index>(rounds.front().size());
  Product product = Product::Identity(n, n);
  // Whatever contracts comes within rounding of the average in the end; an exact schedule gets there in one
  // round from far away.
  bool averaged = false;
  for (std::size_t done = 0;; ++done) {
    if (!averaged) {
      const double error = largest_error(product);
      if (error <= kExact) out.exact_after = static_cast<std::int64_t>(done);
      averaged = error <= kNear || done >= horizon;
    }
    if (done == rounds.size()) out.contraction = deviation_of(product);
    if (done >= rounds.size() && averaged) return out;
    product = applied(rounds[(start + done) % rounds.size()], product);
  }
}

std::optional<std::int64_t> rounds_to(const std::vector<Round>& rounds, double target) {
  const auto n = static_cast<Eigen::Index>(rounds.front().size());
  const auto period = static_cast<std::int64_t>(rounds.size());
  Product before = Product::Identity(n, n);  // the longest whole number of periods known to fall short
  if (deviation_of(before) <= target) return 0;
  std::vector<Product> powers(1, before);  // powers[j]: 2^j periods
  for (const Round& round : rounds)
    powers[0] = applied(round, powers[0]);
  while (deviation_of(powers.back()) > target) {
    if (powers.size() > kMostDoublings) return std::nullopt;
    powers.push_back(powers.back() * powers.back());
  }
  std::int64_t count = 0;
  for (std::size_t j = powers.size(); j-- > 0;) {
    Product longer = powers[j] * before;
    if (deviation_of(longer) <= target) continue;
    before = std::move(longer);
    count += period << j;
  }
  for (std::size_t t = 0; deviation_of(before) > target; ++t, ++count) {
    before = applied(rounds[t % rounds.size()], before);
  }
  return count;
}

}  // namespace

Spectrum spectrum_of(const Schedule& schedule) {
  const std::vector<Round> rounds = rounds_of(schedule);
  const auto n = static_cast<Eigen::Index>(schedule.workers());
  Spectrum out;
  for (const Round& round : rounds)
    out.per_round.push_back(deviation_of(applied(round, Product::Identity(n, n))));
  std::size_t horizon = 2 * rounds.size();
  std::optional<std::int64_t> slowest = 0;
  for (std::size_t start = 0; start < rounds.size(); ++start) {
    const FromStart one = follow(rounds, start, horizon);
    out.contraction_by_start.push_back(one.contraction);
    if (start == 0) out.exact_average_after = one.exact_after;
    slowest = slowest && one.exact_after ? std::max(slowest, one.exact_after) : std::nullopt;
    if (!slowest) horizon = rounds.size();
  }
  out.contraction = *std::max_element(out.contraction_by_start.begin(), out.contraction_by_start.end());
  out.exact_average_after_any_start = slowest;
  out.rounds_to_millionth = rounds_to(rounds, kMillionth);
  return out;
}

}  // namespace kith::graph

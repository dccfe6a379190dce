// Fits the runtime model's physical parameters to the "fit" bars of figure 6 (arXiv 2410.11998) and predicts
// the "held" ones, which never enter the fit. Structure and constants are those of model.cc; docs/planning.md
// says where they come from.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "bench/common/report.h"
#include "bench/figure6/bars.h"
#include "bench/figure6/fit.h"
#include "bench/figure6/model.h"
#include "kith/base/check.h"

namespace {

using figure6::Bar;
using figure6::Split;

constexpr double kStandardError = 0.01;  // of a bar, relative; the residuals then say how much it really is
constexpr std::size_t kMostParameters = 13;

std::vector<double> values_of(const Eigen::VectorXd& x) {
  std::vector<double> values;
  for (const double logarithm : x)
    values.push_back(std::exp(logarithm));
  return values;
}

std::vector<Bar> bars_of(const std::vector<Bar>& bars, Split split) {
  std::vector<Bar> chosen;
  std::copy_if(bars.begin(), bars.end(), std::back_inserter(chosen),
               [&](const Bar& b) { return b.split == split; });
  return chosen;
}

// log(predicted / measured) of each bar, in standard errors.
figure6::Residuals residuals_of(std::vector<Bar> bars, figure6::Settings settings) {
  return [bars = std::move(bars), settings](const Eigen::VectorXd& x) {
    const std::vector<double> values = values_of(x);
    Eigen::VectorXd r(static_cast<Eigen::Index>(bars.size()));
    for (std::size_t i = 0; i < bars.size(); ++i)
      r[static_cast<Eigen::Index>(i)] =
          std::log(predict(bars[i], values, settings) / bars[i].ms) / kStandardError;
    return r;
  };
}

figure6::Fit fit(const figure6::Residuals& residuals, bool quick) {
  const auto& parameters = figure6::parameters();
  Eigen::VectorXd guess(static_cast<Eigen::Index>(parameters.size()));
  Eigen::VectorXd freedom(guess.size());
  for (Eigen::Index k = 0; k < guess.size(); ++k) {
    guess[k] = std::log(parameters[static_cast<std::size_t>(k)].guess);
    freedom[k] = parameters[static_cast<std::size_t>(k)].freedom;
  }
  figure6::Fit best = figure6::minimise(residuals, guess, freedom, guess, {});
  for (const double shift : {-0.4, 0.4}) {  // other starts, to see whether they end elsewhere
    if (quick) break;
    const Eigen::VectorXd start = guess.array() + shift;
    const figure6::Fit other = figure6::minimise(residuals, guess, freedom, start, {});
    std::printf("a start %+.1f away ends at cost %.2f (first: %.2f)\n", shift, other.cost, best.cost);
    if (other.cost < best.cost) best = other;
  }
  return best;
}

struct Prediction {
  Bar bar;
  double ms = 0;
  double factor = 1;  // the 90% interval is ms / factor .. ms * factor
  double error() const { return ms / bar.ms - 1; }
};

// Parameter uncertainty and residual scatter together, with Student's t for the few degrees of freedom that
// are left.
std::vector<Prediction> predict_all(const figure6::Fit& fit, const std::vector<Bar>& bars) {
  const figure6::Settings settings;
  const std::vector<Bar> fitted = bars_of(bars, Split::fit);
  const auto fitted_residuals = residuals_of(fitted, settings);
  const Eigen::MatrixXd slopes = figure6::jacobian(fitted_residuals, fit.x, 0.01);
  const double used = (slopes * fit.covariance * slopes.transpose()).trace();
  const double left = std::max(1.0, static_cast<double>(fitted.size()) - used);
  const double scatter = std::sqrt(std::max(1.0, fitted_residuals(fit.x).squaredNorm() / left));
  const double t90 = 1.645 * (1 + 0.77 / left + 1.4 / (left * left));  // within 1% of Student's t from 4 on
  const Eigen::MatrixXd reach = figure6::jacobian(residuals_of(bars, settings), fit.x, 0.01);
  std::printf("%.1f parameters' worth of %zu bars used; scatter of the rest %.1f%%\n", used, fitted.size(),
              100 * scatter * kStandardError);

  std::vector<Prediction> predictions;
  const std::vector<double> values = values_of(fit.x);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const Eigen::VectorXd row = reach.row(static_cast<Eigen::Index>(i));
    const double sd = kStandardError * scatter * std::sqrt(1 + row.dot(fit.covariance * row));
    predictions.push_back({bars[i], predict(bars[i], values, settings), std::exp(t90 * sd)});
  }
  return predictions;
}

void print_parameters(const figure6::Fit& fit) {
  const auto& parameters = figure6::parameters();
  const std::vector<double> values = values_of(fit.x);
  std::printf("\n%-16s %12s  %s\n", "parameter", "fitted", "relative standard error");
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const auto i = static_cast<Eigen::Index>(k);
    std::printf("%-16s %12.4g  %.0f%% %s\n", parameters[k].name.c_str(), values[k],
                100 * std::sqrt(fit.covariance(i, i)), parameters[k].unit.c_str());
  }
}

void print_table(const std::vector<Prediction>& predictions) {
  std::printf("\n%-20s %9s %9s %7s  %-17s %s\n", "bar", "measured", "predicted", "error", "90% interval, ms",
              "");
  for (const Prediction& p : predictions) {
    const bool inside = p.bar.ms >= p.ms / p.factor && p.bar.ms <= p.ms * p.factor;
    std::printf("%-20s %9.1f %9.1f %+6.1f%%  %7.1f .. %-6.1f %s%s\n", name_of(p.bar).c_str(), p.bar.ms, p.ms,
                100 * p.error(), p.ms / p.factor, p.ms * p.factor,
                p.bar.split == Split::held ? "held" : "fit", inside ? "" : ", outside");
  }
  std::printf("\n");
}

std::vector<double> sorted_errors(const std::vector<Prediction>& predictions, Split split) {
  std::vector<double> errors;
  for (const Prediction& p : predictions) {
    if (p.bar.split == split) errors.push_back(100 * std::abs(p.error()));
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

// Pairs of bars of one cluster and size that differ by more than 5% and that the model puts in the wrong
// order.
int wrong_orders(const std::vector<Prediction>& predictions) {
  int wrong = 0;
  for (const Prediction& a : predictions) {
    for (const Prediction& b : predictions) {
      const bool comparable = a.bar.cluster == b.bar.cluster && a.bar.workers == b.bar.workers;
      wrong += comparable && a.bar.ms > 1.05 * b.bar.ms && a.ms <= b.ms;
    }
  }
  return wrong;
}

void run(const kith::bench::Options& options, kith::bench::Report& report) {
  const std::vector<Bar> bars = figure6::read_bars(KITH_FIGURE6_CSV);
  const std::vector<Bar> fitted = bars_of(bars, Split::fit);
  KITH_CHECK_EQ(bars.size(), 27U, "bars of the figure");
  KITH_CHECK_EQ(fitted.size(), 19U, "bars that may be fitted");
  KITH_CHECK_LE(figure6::parameters().size(), kMostParameters, "fitted parameters");

  const figure6::Fit best = fit(residuals_of(fitted, {}), options.quick);
  print_parameters(best);
  const std::vector<Prediction> predictions = predict_all(best, bars);
  print_table(predictions);

  const std::vector<double> held = sorted_errors(predictions, Split::held);
  for (const Prediction& p : predictions)
    report.measure(name_of(p.bar), {p.ms, p.ms / p.factor, p.ms * p.factor}, "ms");
  report.at_most("figure6-parameters", static_cast<double>(figure6::parameters().size()), kMostParameters);
  report.at_most("figure6-held-median-%", (held[held.size() / 2 - 1] + held[held.size() / 2]) / 2, 4);
  report.at_most("figure6-held-worst-%", held.back(), 10);
  report.at_most("figure6-fit-worst-%", sorted_errors(predictions, Split::fit).back(), 4);
  report.at_most("figure6-wrong-orders", wrong_orders(predictions), 0);
}

}  // namespace

int main(int argc, char** argv) {
  const auto options =
      kith::bench::parse(argc, argv, "figure6", "The runtime model against figure 6 of arXiv 2410.11998.");
  kith::bench::Report report("figure6");
  try {
    run(options, report);
  } catch (const std::exception& error) {
    std::cerr << "bench/figure6: " << error.what() << "\n";
    return 1;
  }
  return report.finish(options);
}

#include "kith/graph/spectrum.h"

#include <Eigen/SVD>
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "kith/graph/matrix.h"
#include "tests/graph/worlds.h"

namespace kith::graph {
namespace {

double largest_singular_value(const Eigen::MatrixXd& matrix) {
  return Eigen::JacobiSVD<Eigen::MatrixXd>(matrix).singularValues()(0);
}

TEST(Spectrum, EveryTopologyContractsOnEveryShape) {
  for (const std::string& name : built_in_names()) {
    for (const Shape& shape : all_shapes()) {
      // Beyond 20 workers one node is sampled: spectra cost O(n^3) and more.
      if (shape.nodes() == 1 && shape.workers() > 20 && shape.workers() % 11 != 0) continue;
      const auto schedule = make(name, shape);
      const Spectrum spectrum = spectrum_of(*schedule);
      EXPECT_TRUE(spectrum.rounds_to_millionth.has_value()) << describe(*schedule);
      if (!schedule->directed()) {
        EXPECT_LT(spectrum.contraction, 1 - 1e-4) << describe(*schedule);
      }
    }
  }
}

TEST(Spectrum, AgreesWithAPlainSvd) {
  for (const char* name : {"matching", "aer", "erdos-renyi", "base", "sun-rotating"}) {
    const auto schedule = make(name, Shape::parse("4,2,1", "test"));
    const Spectrum spectrum = spectrum_of(*schedule);
    const int n = schedule->workers();
    const Eigen::MatrixXd mean = Eigen::MatrixXd::Constant(n, n, 1.0 / n);
    for (std::int64_t start = 0; start < schedule->period(); ++start) {
      Eigen::MatrixXd product = Eigen::MatrixXd::Identity(n, n);
      for (std::int64_t t = 0; t < schedule->period(); ++t) {
        product = (mixing_matrix(*schedule, start + t) * product).eval();
      }
      const auto i = static_cast<std::size_t>(start);
      EXPECT_NEAR(spectrum.contraction_by_start[i], largest_singular_value(product - mean), 1e-12)
          << name << start;
      EXPECT_NEAR(spectrum.per_round[i], largest_singular_value(mixing_matrix(*schedule, start) - mean),
                  1e-12);
    }
  }
}

TEST(Spectrum, OnePeerRingContractsByACosine) {
  for (int n : {4, 8, 16, 32}) {
    const Spectrum spectrum = spectrum_of(*make("ring", Shape::single_node(n)));
    const double expected = std::abs(std::cos(2 * std::numbers::pi / n));
    for (double contraction : spectrum.contraction_by_start)
      EXPECT_NEAR(contraction, expected, 1e-12) << n;
  }
}

TEST(Spectrum, PowersOfTwoAverageExactlyFromEveryStart) {
  for (int p = 1; p <= 6; ++p) {
    for (const char* name : {"exp", "exp-directed"}) {
      const Spectrum spectrum = spectrum_of(*make(name, Shape::single_node(1 << p)));
      EXPECT_EQ(spectrum.exact_average_after, p) << name;
      EXPECT_EQ(spectrum.exact_average_after_any_start, p) << name;
      EXPECT_NEAR(spectrum.contraction, 0, 1e-12) << name;
      EXPECT_LE(spectrum.rounds_to_millionth, p) << name;
    }
  }
}

TEST(Spectrum, CompleteIsExactAtOnceAndOneWorkerAtStart) {
  EXPECT_EQ(spectrum_of(*make("complete", Shape::single_node(9))).exact_average_after, 1);
  EXPECT_EQ(spectrum_of(*make("complete", Shape::single_node(1))).exact_average_after, 0);
  // These come as near as rounding allows within two periods, but by convergence.
  for (const char* name : {"ring-static", "matching", "random-directed", "sun-rotating"}) {
    EXPECT_EQ(spectrum_of(*make(name, Shape::single_node(9))).exact_average_after, std::nullopt) << name;
  }
}

TEST(Spectrum, SunHasTheSecondSingularValueItIsBuiltFor) {
  for (int n : {2, 5, 12, 24, 48}) {
    for (int centres = 1; centres <= n; centres += 1 + n / 6) {
      ScheduleOptions options{.topology = "sun", .shape = Shape::single_node(n)};
      options.centres = centres;
      // With all but one worker in the centre the graph is complete already.
      const double expected = centres >= n - 1 ? 0 : 1 - static_cast<double>(centres) / n;
      EXPECT_NEAR(spectrum_of(*make_schedule(options)).contraction, expected, 1e-12)
          << n << " workers, " << centres << " centres";
      options.topology = "sun-rotating";
      for (double one : spectrum_of(*make_schedule(options)).per_round)
        EXPECT_NEAR(one, expected, 1e-12);
    }
  }
}

// arXiv 2211.00533, the hard instance: news of the first third of the workers, while the centres are those of
// the middle third who have not heard it yet. Each round tells it to its centres alone, so that the last
// third hears of it after ceil(n / 3c) + 1 rounds, about 1 / (1 - beta).
TEST(Spectrum, RotatingCentresKeepNewsFromTheLastThird) {
  for (const int n : {24, 48, 96}) {
    for (const int centres : {1, 2, 4}) {
      const auto schedule =
          make_schedule({.topology = "sun-rotating", .shape = Shape::single_node(n), .centres = centres});
      std::vector<bool> heard(static_cast<std::size_t>(n), false);
      std::fill_n(heard.begin(), n / 3, true);
      const std::int64_t first = n / 3 / centres;  // whose centres are the first of the middle third
      std::int64_t rounds = 0;
      while (std::none_of(heard.begin() + 2 * n / 3, heard.end(), [](bool one) { return one; })) {
        std::vector<bool> next = heard;
        for (Rank rank = 0; rank < n; ++rank) {
          for (const Rank other : reads_of(schedule->round(rank, first + rounds), rank))
            if (heard[static_cast<std::size_t>(other)]) next[static_cast<std::size_t>(rank)] = true;
        }
        heard = next;
        ASSERT_LE(++rounds, n) << n << " workers, " << centres << " centres";
      }
      EXPECT_EQ(rounds, (n + 3 * centres - 1) / (3 * centres) + 1)
          << n << " workers, " << centres << " centres";
    }
  }
}

// Counts by multiplying one round at a time, and by the closed form of a circulant.
TEST(Spectrum, RoundsToAMillionthMatchTheClosedForm) {
  for (int n : {5, 16, 33}) {
    const double value = 1 - 2.0 / 3 * (1 - std::cos(2 * std::numbers::pi / n));
    const auto expected = static_cast<std::int64_t>(std::ceil(std::log(1e-6) / std::log(value)));
    EXPECT_EQ(spectrum_of(*make("ring-static", Shape::single_node(n))).rounds_to_millionth, expected) << n;
  }
  const auto ring = make("ring", Shape::single_node(7));
  const Eigen::MatrixXd mean = Eigen::MatrixXd::Constant(7, 7, 1.0 / 7);
  Eigen::MatrixXd product = Eigen::MatrixXd::Identity(7, 7);
  std::int64_t rounds = 0;
  for (; largest_singular_value(product - mean) > 1e-6; ++rounds) {
    product = (mixing_matrix(*ring, rounds) * product).eval();
  }
  EXPECT_EQ(spectrum_of(*ring).rounds_to_millionth, rounds);
}

// Push-sum itself, run on numbers, must reach the mean as fast as the spectrum says.
TEST(Spectrum, PushSumReachesTheMeanAsPredicted) {
  for (int n : {3, 6, 20, 50}) {
    const auto schedule = make("random-directed", Shape::single_node(n));
    const Spectrum spectrum = spectrum_of(*schedule);
    ASSERT_TRUE(spectrum.rounds_to_millionth.has_value()) << n;
    Eigen::VectorXd models = Eigen::VectorXd::LinSpaced(n, 0, 1), weights = Eigen::VectorXd::Ones(n);
    const double mean = models.mean();
    const double start = (models.array() - mean).matrix().norm();
    for (std::int64_t t = 0; t < *spectrum.rounds_to_millionth; ++t) {
      const Eigen::MatrixXd matrix = mixing_matrix(*schedule, t);
      models = (matrix * models).eval();
      weights = (matrix * weights).eval();
    }
    EXPECT_LE(((models.array() / weights.array()) - mean).matrix().norm(), 1e-6 * start + 1e-15) << n;
  }
}

}  // namespace
}  // namespace kith::graph

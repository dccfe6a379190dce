#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/graph/matrix.h"
#include "kith/graph/spectrum.h"
#include "tests/graph/worlds.h"

namespace kith::graph {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<Schedule> load(const std::string& json, int workers) {
  const TempFile file(json);
  return make_schedule({.topology = "file", .shape = Shape::single_node(workers), .file = file.path()});
}

std::string failure(const std::string& json, int workers) {
  try {
    load(json, workers);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(File, ReadsGroupsEdgesAndMatrices) {
  const auto schedule = load(R"({"workers": 4, "rounds": [
      {"groups": [[1, 0], [2, 3]]},
      {"edges": [[0, 2], [3, 1], [2, 0]]},
      {"matrix": [[0.5, 0, 0, 0.5], [0, 1, 0, 0], [0, 0, 1, 0], [0.5, 0, 0, 0.5]]}]})",
                             4);
  EXPECT_EQ(schedule->period(), 3);
  EXPECT_EQ(schedule->round(1, 0).group, (std::vector<Rank>{0, 1}));
  EXPECT_EQ(reads_of(schedule->round(3, 1), 3), std::vector<Rank>{1});
  EXPECT_EQ(reads_of(schedule->round(0, 2), 0), std::vector<Rank>{3});
  EXPECT_TRUE(stochasticity_of(*schedule).doubly_stochastic());
  EXPECT_EQ(spectrum_of(*schedule).exact_average_after, 2);
}

TEST(File, EdgesAloneAreAStaticGraphWithMetropolisWeights) {
  const auto schedule = load(R"({"edges": [[0, 1], [1, 2]]})", 3);
  EXPECT_EQ(schedule->period(), 1);
  const Eigen::MatrixXd matrix = mixing_matrix(*schedule, 0);
  EXPECT_DOUBLE_EQ(matrix(0, 1), 1.0 / 3);
  EXPECT_DOUBLE_EQ(matrix(0, 0), 2.0 / 3);
}

TEST(File, DirectedEdgesPush) {
  const auto schedule = load(R"({"directed": true, "edges": [[0, 1], [0, 2], [1, 0], [2, 0]]})", 3);
  EXPECT_TRUE(schedule->directed());
  const Stochasticity found = stochasticity_of(*schedule);
  EXPECT_TRUE(found.column_stochastic());
  EXPECT_FALSE(found.doubly_stochastic());
  EXPECT_DOUBLE_EQ(mixing_matrix(*schedule, 0)(1, 0), 1.0 / 3);
  EXPECT_DOUBLE_EQ(mixing_matrix(*schedule, 0)(0, 1), 1.0 / 2);
}

TEST(File, SharesAreTheColumnsOfADirectedMatrix) {
  const auto schedule = load(
      R"({"directed": true, "rounds": [{"matrix": [[0.5, 0.25, 0], [0.375, 0.5, 1], [0.125, 0.25, 0]]}]})",
      3);
  const std::vector<Term> shares = shares_of(schedule->round(0, 0), 0);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].rank, 1);
  EXPECT_EQ(shares[0].weight, 0.375);
  EXPECT_EQ(shares[1].rank, 2);
  EXPECT_EQ(shares[1].weight, 0.125);
}

TEST(File, ErrorsNameRoundRankAndNumber) {
  EXPECT_THAT(failure(R"({"rounds": [{"groups": [[0, 1]]}, {"matrix": [[0.5, 0.5], [0.5, 0.4]]}]})", 2),
              AllOf(HasSubstr("round 1"), HasSubstr("rank 1"), HasSubstr("0.9")));
  EXPECT_THAT(failure(R"({"rounds": [{"matrix": [[0.6, 0.4], [0.5, 0.5]]}]})", 2),
              AllOf(HasSubstr("round 0"), HasSubstr("column of rank 0"), HasSubstr("1.1")));
  EXPECT_THAT(failure(R"({"rounds": [{"matrix": [[1.5, -0.5], [-0.5, 1.5]]}]})", 2),
              AllOf(HasSubstr("round 0"), HasSubstr("rank 0 takes -0.5 of rank 1")));
  EXPECT_THAT(failure(R"({"rounds": [{"matrix": [[0.5, 0.5]]}]})", 2),
              AllOf(HasSubstr("round 0"), HasSubstr("1 rows")));
  EXPECT_THAT(failure(R"({"rounds": [{"matrix": [[0.5, 0.5], [1]]}]})", 2),
              AllOf(HasSubstr("round 0"), HasSubstr("rank 1 has 1 entries")));
  EXPECT_THAT(failure(R"({"rounds": [{"groups": [[0, 1, 2]]}, {"groups": [[0, 1], [1, 2]]}]})", 3),
              AllOf(HasSubstr("round 1"), HasSubstr("rank 1 is in group 0 and in group 1")));
  EXPECT_THAT(failure(R"({"rounds": [{"groups": [[0, 1], [2, 2]]}]})", 3),
              AllOf(HasSubstr("round 0"), HasSubstr("rank 2 is in group 1 and in group 1")));
  EXPECT_THAT(failure(R"({"rounds": [{"groups": [[0, 1]]}]})", 3),
              AllOf(HasSubstr("round 0"), HasSubstr("rank 2 is in none of the 1 groups")));
  EXPECT_THAT(failure(R"({"rounds": [{"groups": [[0, 1, 7]]}]})", 3),
              AllOf(HasSubstr("round 0"), HasSubstr("rank 7"), HasSubstr("ranks 0 to 2")));
  EXPECT_THAT(failure(R"({"rounds": [{"edges": [[0, 1], [2, 2]]}]})", 3),
              AllOf(HasSubstr("round 0"), HasSubstr("edge 1"), HasSubstr("rank 2 to itself")));
  EXPECT_THAT(failure(R"({"edges": [[0, 1.5]]})", 3),
              AllOf(HasSubstr("round 0"), HasSubstr("edge 0"), HasSubstr("1.5")));
}

TEST(File, WorkersThatNeverMeetAreNamed) {
  const char* isolated = R"({"rounds": [{"groups": [[0, 1], [2, 3]]}, {"edges": [[2, 3]]}]})";
  EXPECT_THAT(failure(isolated, 4),
              AllOf(HasSubstr("rounds 0 to 1"), HasSubstr("rank 2"), HasSubstr("2 of 4")));
  EXPECT_THAT(failure(R"({"directed": true, "edges": [[0, 1], [1, 2]]})", 3),
              AllOf(HasSubstr("rank 1"), HasSubstr("2 of 3")));
}

TEST(File, BadFilesAreNamed) {
  EXPECT_THAT(failure("{", 2), HasSubstr("is not JSON"));
  EXPECT_THAT(failure("[]", 2), HasSubstr("needs either 'rounds' or 'edges'"));
  EXPECT_THAT(failure(R"({"rounds": []})", 2), HasSubstr("at least one round"));
  EXPECT_THAT(failure(R"({"rounds": 3})", 2), HasSubstr("at least one round"));
  EXPECT_THAT(failure(R"({"rounds": [3]})", 2),
              AllOf(HasSubstr("round 0"), HasSubstr("groups, edges, matrix")));
  EXPECT_THAT(failure(R"({"edges": [[0, 1]], "worker": 2})", 2), HasSubstr("did you mean 'workers'"));
  EXPECT_THAT(failure(R"({"edges": [[0, 1]], "workers": 3})", 2),
              AllOf(HasSubstr("3 workers"), HasSubstr("has 2")));
  EXPECT_THAT(failure(R"({"edges": [[0, 1]], "directed": 1})", 2), HasSubstr("'directed' is 1"));
  EXPECT_THAT(failure(R"({"edges": {"0": 1}})", 2), HasSubstr("a list is needed"));
  EXPECT_THAT(failure(R"({"rounds": [{"matrix": [["x", 0], [0, 1]]}]})", 2), HasSubstr("rank 0 takes \"x\""));
  EXPECT_THROW(make_schedule({.topology = "file", .shape = Shape::single_node(2), .file = "/no/such/file"}),
               InputError);
  EXPECT_THROW(make_schedule({.topology = "file", .shape = Shape::single_node(2)}), InputError);
}

}  // namespace
}  // namespace kith::graph

// A study: what its file says, which runs follow from it, and what is concluded from their losses.

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/train/run/summary.h"
#include "kith/train/study/pictures.h"
#include "kith/train/study/report.h"
#include "tests/run/support.h"

namespace kith::train::study {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kStudy = R"([study]
baseline = "all-reduce"
steps = 100
seeds = [1, 2, 3]

[common]
world.workers = 2
train.steps = [100, 200, 400]

[tune]
seeds = [7, 8]
rate.lr = [1e-3, 2e-3, 4e-3]

[methods.all-reduce]
algorithm.name = "allreduce"
train.steps = 100

[methods.mix]
algorithm.name = "awc"
topology.name = ["aer", "ring"]
tune.rate.lr = [2e-3, 4e-3, 8e-3]
)";

class StudyTest : public testing::Test {
 protected:
  Design design(const std::string& text) const { return read_design(folder_.write("study.toml", text)); }
  const TestFolder folder_{};
};

// The loss that a run would end with: all-reduce is best at 2e-3, mixing at 4e-3 and as if its steps were
// fewer; a seed shifts both alike.
double loss_of(const Run& run, double factor) {
  const bool mixes = run.name.starts_with("mix");
  const double lr = std::stod(run.choice.front().value), best = mixes ? 4e-3 : 2e-3;
  const double steps = static_cast<double>(run.steps) / (mixes ? factor : 1.0);
  return 3 - 0.1 * std::log2(steps) + 0.05 * std::pow(std::log2(lr / best), 2) +
         0.01 * static_cast<double>(run.seed);
}

// Runs what a study wants, one after the other; stops after `most`. Returns the titles.
std::vector<std::string> run_all(const Design& design, Results& results, double factor = 1.5,
                                 std::size_t most = 1000) {
  const std::vector<Cell> cells = cells_of(design);
  std::vector<std::string> titles;
  while (titles.size() < most) {
    const std::vector<study::Run> wanted = wanted_runs(design, cells, results);
    const Run* const next = next_run(wanted, results, {});
    if (next == nullptr) break;
    titles.push_back(next->title);
    results[next->name] = {.failed = false, .loss = loss_of(*next, factor)};
  }
  return titles;
}

TEST_F(StudyTest, AListIsAnAxis) {
  const Design read = design(kStudy);
  std::vector<std::string> titles;
  for (const Cell& cell : cells_of(read))
    titles.push_back(cell.title());
  EXPECT_THAT(titles, ElementsAre("all-reduce", "mix topology.name=aer", "mix topology.name=ring"));
  EXPECT_EQ(read.tuning_steps, 100);
  EXPECT_THAT(read.tuning_seeds, ElementsAre(7, 8));
  const Cell mix = cells_of(read).back();
  EXPECT_THAT(mix.lengths, ElementsAre(100, 200, 400));
  std::vector<std::string> settings;
  const std::vector<study::Run> runs = measuring_runs(read, mix, {{"rate.lr", "0.004"}});
  for (const Setting& setting : runs.back().settings)
    settings.push_back(setting.text);
  EXPECT_THAT(settings, ElementsAre("world.workers=2", "algorithm.name=awc", "topology.name=ring",
                                    "rate.lr=0.004", "train.steps=400", "train.seed=3"));
}

TEST_F(StudyTest, AFileMayBeNamedWithoutAFolder) {
  std::string text(kStudy);
  text.insert(text.find("[common]\n") + 9, "data.path = \"text.txt\"\n");
  folder_.write("study.toml", text);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const Design read = read_design("study.toml");
  std::filesystem::current_path(before);
  EXPECT_THAT(read.common.front().values, ElementsAre((folder_.path() / "text.txt").string()));
}

TEST_F(StudyTest, MeasuresWithWhatTuningFound) {
  const Design read = design(kStudy);
  Results results;
  const std::vector<std::string> titles = run_all(read, results);
  // Tuning: 3 cells x 3 rates x 2 seeds. Then 3 seeds of 1 length, and twice of 3.
  ASSERT_EQ(titles.size(), 18u + 3 + 18);
  EXPECT_EQ(std::set<std::string>(titles.begin(), titles.end()).size(), titles.size()) << "nothing twice";
  EXPECT_EQ(total_runs(read, cells_of(read), {}), titles.size()) << "known from the start";
  EXPECT_EQ(titles.front(), "all-reduce rate.lr=0.001, 100 steps, seed 7");
  EXPECT_EQ(titles[18], "all-reduce rate.lr=0.002, 100 steps, seed 1");
  EXPECT_EQ(titles.back(), "mix topology.name=ring rate.lr=0.004, 400 steps, seed 3");
}

TEST_F(StudyTest, GoesOnWhereItStopped) {
  const Design read = design(kStudy);
  Results at_once;
  std::vector<std::string> all = run_all(read, at_once);
  Results in_parts;
  std::vector<std::string> titles;
  for (const std::size_t part : {5u, 14u, 100u}) {
    for (std::string& title : run_all(read, in_parts, 1.5, part))
      titles.push_back(std::move(title));
  }
  EXPECT_EQ(titles, all);
}

TEST_F(StudyTest, ARunThatIsUnderWayIsNotStartedAgain) {
  const Design read = design(kStudy);
  const std::vector<study::Run> wanted = wanted_runs(read, cells_of(read), {});
  ASSERT_EQ(wanted.size(), 18u) << "the measurement waits for the choice";
  EXPECT_EQ(next_run(wanted, {}, {wanted[0].name}), &wanted[1]);
  EXPECT_EQ(next_run(wanted, {{wanted[1].name, {}}}, {wanted[0].name}), &wanted[2]);
}

TEST_F(StudyTest, AnEditedJobIsAnotherRun) {
  const std::string text = std::string("[study]\njob = \"job.toml\"\n") + (kStudy + 8);
  folder_.write("job.toml", "[model]\nwidth = 32\n");
  const std::string before = wanted_runs(design(text), cells_of(design(text)), {}).front().name;
  folder_.write("job.toml", "[model]\nwidth = 64\n");
  EXPECT_NE(wanted_runs(design(text), cells_of(design(text)), {}).front().name, before);
}

TEST_F(StudyTest, TheStepsFactorIsFoundBetweenLengths) {
  const Design read = design(kStudy);
  Results results;
  run_all(read, results, 1.5);
  const Report report = report_on(read, cells_of(read), results);
  ASSERT_TRUE(report.cells[1].factor);
  const StepsFactor& factor = *report.cells[1].factor;
  EXPECT_NEAR(factor.factor.mean, 1.5, 1e-9);
  EXPECT_NEAR(factor.factor.high, 1.5, 1e-9) << "seeds shift both alike, and pairs cancel that";
  EXPECT_EQ(factor.factor.count, 3u);
  EXPECT_FALSE(factor.outside);
  EXPECT_FALSE(report.cells[0].factor) << "the baseline itself";
  EXPECT_TRUE(report.cells[1].choice->at_edge.empty());
  EXPECT_NEAR(report.cells[1].lengths.front().over_baseline->mean, 0.1 * std::log2(1.5), 1e-9);
}

TEST_F(StudyTest, ABestRateAtTheEdgeIsSaid) {
  const Design read = design(std::string(kStudy) + "[methods.late]\nrate.warmup = 3\n");
  Results results;
  run_all(read, results);  // late is best at 2e-3 like all-reduce, which is in the middle of the list
  std::string text = kStudy;
  text.replace(text.find("[1e-3, 2e-3, 4e-3]"), 18, "[2e-3, 4e-3, 8e-3]");
  const Design other = design(text);
  run_all(other, results);
  const Report report = report_on(other, cells_of(other), results);
  EXPECT_THAT(report.cells[0].choice->at_edge, ElementsAre("rate.lr"));
  EXPECT_THAT(table_text(report), AllOf(HasSubstr("rate.lr=0.002 (EDGE)"), HasSubstr("widen the list")));
  EXPECT_THAT(table_text(report_on(read, cells_of(read), results)), Not(HasSubstr("EDGE")));
}

TEST_F(StudyTest, BeyondTheLengthsIsSaid) {
  const Design read = design(kStudy);
  Results results;
  run_all(read, results, 5);
  const Report report = report_on(read, cells_of(read), results);
  EXPECT_TRUE(report.cells[1].factor->outside);
  EXPECT_NEAR(report.cells[1].factor->factor.mean, 5, 1e-9);
  EXPECT_THAT(table_text(report), HasSubstr("~5.000"));
}

TEST_F(StudyTest, FailedAndDivergedRunsAreNotChosen) {
  const Design read = design(kStudy);
  const std::vector<Cell> cells = cells_of(read);
  Results results;
  for (const study::Run& run : tuning_runs(read, cells[0])) {
    results[run.name] = {.failed = run.choice.front().value == "0.001",
                         .loss = run.choice.front().value == "0.002" ? NAN : 5.0};
  }
  EXPECT_EQ(choice_of(read, cells[0], results)->values.front().value, "0.004");
  EXPECT_FALSE(choice_of(read, cells[1], results)) << "not tuned yet";
}

TEST_F(StudyTest, TheJsonHasEveryRunWithItsCommand) {
  const Design read = design(kStudy);
  Results results;
  run_all(read, results, 1.5, 20);
  const std::vector<Cell> cells = cells_of(read);
  const std::vector<study::Run> wanted = wanted_runs(read, cells, results);
  const std::vector<std::string> commands(wanted.size(), "kith train ...");
  const auto json =
      nlohmann::json::parse(report_json(read, report_on(read, cells, results), wanted, commands, results));
  EXPECT_EQ(json.at("runs").size(), 39u);
  EXPECT_EQ(json.at("runs").at(0).at("state"), "finished");
  EXPECT_EQ(json.at("runs").at(38).at("state"), "missing");
  EXPECT_EQ(json.at("runs").at(0).at("command"), "kith train ...");
  EXPECT_EQ(json.at("runs_done"), 20);
  EXPECT_EQ(json.at("runs_in_all"), 39);
  EXPECT_EQ(json.at("cells").at(0).at("chosen").at("rate.lr"), "0.002");
  EXPECT_EQ(json.at("cells").at(0).at("lengths").at(0).at("loss").at("seeds"), 2);
}

TEST_F(StudyTest, PicturesHaveACurveForEachCell) {
  const Design read = design(kStudy);
  Results results;
  run_all(read, results);
  const Report report = report_on(read, cells_of(read), results);
  for (const std::string& svg : {lengths_svg(report), tuning_svg(report)}) {
    EXPECT_THAT(svg, AllOf(HasSubstr("mix topology.name=ring"), HasSubstr("</svg>"), Not(HasSubstr("nan"))));
  }
}

TEST_F(StudyTest, WhatLiesInAFolderDecidesHowItGoesOn) {
  const std::filesystem::path run = folder_.path() / "run";
  EXPECT_EQ(left_of(run), Left::nothing);
  std::filesystem::create_directories(run / "checkpoints");
  folder_.write("run/config.toml", "");
  EXPECT_EQ(left_of(run), Left::nothing) << "there is no checkpoint yet";
  std::filesystem::create_directories(run / "checkpoints" / "ckpt-00000010");
  EXPECT_EQ(left_of(run), Left::part);
  folder_.write("run/summary.json", "{\"ending\": \"fini");
  EXPECT_EQ(left_of(run), Left::part) << "a crash left half of it";
  Summary summary;
  summary.ending = Ending::interrupted;
  folder_.write("run/summary.json", summary_json(Job(), summary));
  EXPECT_EQ(left_of(run), Left::part);
  summary.ending = Ending::finished;
  summary.validation_loss = 1.25;
  folder_.write("run/summary.json", summary_json(Job(), summary));
  EXPECT_EQ(left_of(run), Left::all);
  EXPECT_EQ(read_result(run).loss, 1.25);
}

struct BadStudy {
  std::string title, from, to;
  std::vector<std::string> message;
};

void PrintTo(const BadStudy& bad, std::ostream* out) {
  *out << bad.to;
}

class BadStudies : public testing::TestWithParam<BadStudy> {};

TEST_P(BadStudies, AreRefusedWithValuePlaceAndRemedy) {
  const TestFolder folder;
  std::string text = kStudy;
  const auto at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, GetParam().from.size(), GetParam().to);
  const auto file = folder.write("study.toml", text);
  const std::string message = support::failure_of<InputError>([&] { read_design(file); });
  for (const std::string& part : GetParam().message)
    EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadStudies,
    testing::Values(
        BadStudy{"NotToml", "[study]", "[study", {"study.toml:1", "not TOML"}},
        BadStudy{"Section", "[common]", "[commons]", {"study.toml:6: commons", "did you mean 'common'?"}},
        BadStudy{
            "Key", "rate.lr = [1e-3", "rate.l = [1e-3", {"study.toml:12: rate.l", "did you mean 'rate.lr'?"}},
        BadStudy{
            "StudyKey", "seeds = [1", "seed = [1", {"study.toml:4: study.seed", "did you mean 'seeds'?"}},
        BadStudy{"NoSeeds", "seeds = [1, 2, 3]", "", {"study.seeds", "there are no seeds", "[1, 2, 3]"}},
        BadStudy{"SeedTwice", "[7, 8]", "[7, 7]", {"study.toml:11: tune.seeds", "7 is there twice"}},
        BadStudy{"NoList", "[7, 8]", "7", {"study.toml:11: tune.seeds", "no list of whole numbers"}},
        BadStudy{"EmptyList", "[\"aer\", \"ring\"]", "[]", {"study.toml:20: topology.name", "empty list"}},
        BadStudy{
            "ValueTwice", "\"ring\"]", "\"aer\"]", {"study.toml:20: topology.name", "'aer' is there twice"}},
        BadStudy{"Value",
                 "\"ring\"]",
                 "\"rung\"]",
                 {"study.toml:20: topology.name", "'rung' is not known", "did you mean 'ring'?"}},
        BadStudy{"Range", "8e-3]", "-8e-3]", {"study.toml:21: rate.lr", "out of range"}},
        BadStudy{"Baseline",
                 "\"all-reduce\"",
                 "\"allreduce\"",
                 {"study.baseline", "'allreduce'", "did you mean 'all-reduce'?"}},
        BadStudy{
            "Length", "steps = 100\nseeds", "steps = 150\nseeds", {"study.steps", "no runs of 150 steps"}},
        BadStudy{
            "OwnSeed", "world.workers = 2", "train.seed = 2", {"study.toml:7: train.seed", "study.seeds"}},
        BadStudy{"SeveralBaselines",
                 "algorithm.name = \"allreduce\"",
                 "optimizer.beta2 = [0.9, 0.99]",
                 {"study.toml:15: optimizer.beta2", "baseline would be several"}},
        BadStudy{"NoMethodTable",
                 "[methods.all-reduce]",
                 "[methods]\nother = 3\n[methods.all-reduce]",
                 {"study.toml:15: methods.other", "is no section", "write [methods.other]"}}),
    [](const testing::TestParamInfo<BadStudy>& bad) { return bad.param.title; });

TEST(Statistics, AMeanAndItsInterval) {
  const std::vector<double> values{1, 2, 3, 4};
  const Estimate result = estimate(values);
  EXPECT_EQ(result.mean, 2.5);
  EXPECT_NEAR(result.high - result.mean, 2.353 * std::sqrt(5.0 / 3 / 4), 1e-9);
  EXPECT_TRUE(std::isnan(estimate(std::vector<double>{1}).high));
  EXPECT_NEAR(student_t95(30), 1.697, 2e-3) << "beyond the table";
}

TEST(Statistics, OfAMeanTheJackknifeIsStudentsInterval) {
  const std::vector<double> values{1, 2, 3, 7};
  const auto mean = [&](std::span<const std::size_t> which) -> std::optional<double> {
    double sum = 0;
    for (const std::size_t i : which)
      sum += values[i];
    return sum / static_cast<double>(which.size());
  };
  const auto result = jackknife(values.size(), mean);
  EXPECT_NEAR(result->mean, estimate(values).mean, 1e-12);
  EXPECT_NEAR(result->low, estimate(values).low, 1e-12);
  EXPECT_NEAR(result->high, estimate(values).high, 1e-12);
}

TEST(Statistics, StepsToALoss) {
  const std::vector<LengthLoss> lengths{{100, 2.0}, {200, 1.8}, {800, 1.6}};
  EXPECT_NEAR(steps_to_loss(lengths, 1.9)->steps, 100 * std::sqrt(2), 1e-9);
  EXPECT_NEAR(steps_to_loss(lengths, 1.7)->steps, 400, 1e-9);
  EXPECT_NEAR(steps_to_loss(lengths, 1.5)->steps, 1600, 1e-9);
  EXPECT_TRUE(steps_to_loss(lengths, 1.5)->outside);
  EXPECT_NEAR(steps_to_loss(lengths, 2.2)->steps, 50, 1e-9);
  EXPECT_TRUE(steps_to_loss(lengths, 2.2)->outside);
  EXPECT_FALSE(steps_to_loss(std::vector<LengthLoss>{{100, 2.0}}, 1.9));
  EXPECT_FALSE(steps_to_loss(std::vector<LengthLoss>{{100, 2.0}, {200, 2.1}}, 1.9));
}

}  // namespace
}  // namespace kith::train::study

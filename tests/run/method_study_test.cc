// kith study methods: problems, trials and what their tables say; and what arXiv 2008.10422 promises of
// D-Adam and CD-Adam, on its kind of problem.
#include "kith/train/study/method_study.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/optim/algorithm.h"
#include "tests/run/support.h"

namespace kith::train::study {
namespace {

using testing::HasSubstr;

Entry entry_of(const std::string& name, const std::string& topology) {
  return named_entries(all_entries(topology), {name}, "test").front();
}

void write_idx(const std::filesystem::path& path, const std::vector<std::uint32_t>& sizes,
               const std::vector<std::uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.put(0).put(0).put(8).put(static_cast<char>(sizes.size()));
  for (const std::uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8)
      file.put(static_cast<char>(size >> shift & 0xff));
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// Images of 4 x 5 pixels, whose kind is told by which pixels are bright.
void write_images(const std::filesystem::path& folder) {
  for (const auto& [set, count] : {std::pair{"train", 600}, {"t10k", 200}}) {
    Rng rng(hash_words(7, count));
    std::vector<std::uint8_t> pixels, labels;
    for (int k = 0; k < count; ++k) {
      const auto kind = static_cast<std::uint8_t>(rng.below(10));
      labels.push_back(kind);
      for (std::size_t p = 0; p < 20; ++p)
        pixels.push_back(static_cast<std::uint8_t>((p % 10 == kind ? 180 : 20) + rng.below(60)));
    }
    const auto number = static_cast<std::uint32_t>(count);
    write_idx(folder / (std::string(set) + "-images-idx3-ubyte"), {number, 4, 5}, pixels);
    write_idx(folder / (std::string(set) + "-labels-idx1-ubyte"), {number}, labels);
  }
}

// Every gradient against differences of the loss, with a batch that is all of one worker's data.
TEST(Problems, GradientsAreThoseOfTheLoss) {
  const TestFolder folder;
  write_images(folder.path());
  for (const auto& [name, hidden] : {std::pair{"mnist", 0}, {"fashion", 6}}) {
    ProblemOptions options{
        .name = name, .workers = 1, .batch = 4000, .hidden = hidden, .data = folder.path()};
    const auto problem = make_problem(options);
    std::vector<float> model = problem->start();
    std::vector<float> gradient(model.size());
    std::vector<const float*> at;
    std::vector<float*> to;
    std::size_t first = 0;
    for (const std::size_t part : problem->parts()) {
      at.push_back(model.data() + first);
      to.push_back(gradient.data() + first);
      first += part;
    }
    ASSERT_EQ(first, model.size());
    problem->gradient(0, 0, at, to);
    // A batch is drawn, and its gradient is off by its noise; steps along it fall by its square.
    double square = 0;
    for (const float g : gradient)
      square += static_cast<double>(g) * g;
    const double before = problem->score(at).loss;
    constexpr double kStep = 1e-2;
    for (std::size_t e = 0; e < model.size(); ++e)
      model[e] -= static_cast<float>(kStep) * gradient[e];
    EXPECT_NEAR((before - problem->score(at).loss) / (kStep * square), 1, 0.1) << name;
    EXPECT_NEAR(before, std::log(10), 1.0) << name;
  }
}

TEST(Problems, SplitByLabelEverybodyPullsElsewhere) {
  const TestFolder folder;
  write_images(folder.path());
  for (const char* name : {"quadratic", "logistic", "mnist"}) {
    const auto apart = [&](Split split) {
      const auto problem = make_problem(
          {.name = name, .workers = 4, .batch = 400, .hidden = 0, .split = split, .data = folder.path()});
      std::vector<float> model = problem->start(), one(model.size()), other(model.size());
      std::vector<const float*> at;
      std::vector<float*> to_one, to_other;
      std::size_t first = 0;
      for (const std::size_t part : problem->parts()) {
        at.push_back(model.data() + first);
        to_one.push_back(one.data() + first);
        to_other.push_back(other.data() + first);
        first += part;
      }
      problem->gradient(0, 0, at, to_one);
      problem->gradient(3, 0, at, to_other);
      double square = 0;
      for (std::size_t e = 0; e < one.size(); ++e)
        square += (one[e] - other[e]) * (one[e] - other[e]);
      return square;
    };
    EXPECT_GT(apart(Split::by_label), 2 * apart(Split::mixed)) << name;
  }
}

TEST(Problems, RefuseWhatTheyCannotBe) {
  EXPECT_THROW(make_problem({.name = "logistics"}), InputError);
  EXPECT_THROW(make_problem({.name = "logistic", .batch = 0}), InputError);
  EXPECT_THROW(make_problem({.name = "mnist", .data = "/no/such/folder"}), InputError);
}

// Every entry runs, learns, and counts what it sends.
TEST(Trials, EveryMethodLearns) {
  const auto problem = make_problem({.name = "quadratic", .workers = 4});
  TrialOptions options{.workers = 4, .steps = 100, .score_every = 50, .lr = 0.05};
  std::set<std::string> algorithms;
  for (const Entry& entry : all_entries("ring-static")) {
    const bool outer = entry.trigger == "every 20";  // five outer steps
    options.lr = outer ? 0.4 : entry.optimizer == "adam" ? 0.1 : 0.05;
    const Trial trial = run_trial(*problem, entry, options);
    ASSERT_EQ(trial.points.size(), 3U) << entry.name;
    EXPECT_FALSE(trial.diverged) << entry.name;
    EXPECT_LT(trial.last().score.loss, 0.5 * trial.points.front().score.loss) << entry.name;
    EXPECT_EQ(trial.last().bytes > 0, entry.algorithm != "none") << entry.name;
    EXPECT_GE(trial.last().modelled_s, 100 * options.network.compute_s * (1 - 1e-9)) << entry.name;
    algorithms.insert(entry.algorithm);
  }
  // All but atc, which dsgd is with this optimizer.
  EXPECT_EQ(algorithms.size() + 1, optim::algorithm_names().size());
}

// By hand: a ring of four has two neighbours, all-reduce moves 2 (n-1)/n, diloco the same every 20 steps.
TEST(Trials, CountBytesAndModelTime) {
  const auto problem = make_problem({.name = "quadratic", .workers = 4});
  const double vector = 256 * 4;
  TrialOptions options{.workers = 4, .steps = 40, .score_every = 40};
  options.network = {.bytes_per_s = 1e5, .latency_s = 0.001, .compute_s = 0.02};
  const auto last = [&](const char* name) {
    return run_trial(*problem, entry_of(name, "ring-static"), options).last();
  };
  EXPECT_NEAR(last("dsgd").bytes, 40 * 2 * vector, 1e-6);
  EXPECT_NEAR(last("dsgd").modelled_s, 40 * (0.02 + 0.001 + 2 * vector / 1e5), 1e-9);
  EXPECT_NEAR(last("awc").modelled_s, 40 * (0.001 + 2 * vector / 1e5), 1e-9) << "travels while it computes";
  EXPECT_NEAR(last("allreduce").bytes, 40 * 1.5 * vector, 1e-6);
  EXPECT_NEAR(last("diloco, every 20").bytes, 2 * 1.5 * vector, 1e-6);
  EXPECT_NEAR(last("choco, sign").bytes, 2 * (16 + vector) + 39 * 2 * (16 + 256 / 8 + 4), 1e-6)
      << "the first message is whole";
  EXPECT_EQ(last("none").bytes, 0);
}

// arXiv 2008.10422 on a non-convex logistic problem, 8 workers on a ring, 600 steps: a period costs nothing,
// sign compression hardly anything.
TEST(DAdam, APeriodIsNearlyFreeAndSoIsTheSign) {
  const auto problem = make_problem({.name = "logistic", .workers = 8});
  TrialOptions options{.workers = 8, .steps = 600, .score_every = 600, .lr = 0.01};
  const auto loss = [&](const char* algorithm, const char* codec, const char* trigger) {
    const Entry entry{"", algorithm, "adam", "ring-static", codec, trigger, {}};
    const Trial trial = run_trial(*problem, entry, options);
    return std::pair{trial.last().score.loss, trial.last().bytes};
  };
  const auto [plain, bytes] = loss("d-adam", "", "every 1");
  for (const char* trigger : {"every 4", "every 16"})
    EXPECT_NEAR(loss("d-adam", "", trigger).first, plain, 0.002 * plain) << trigger;
  EXPECT_NEAR(bytes / loss("d-adam", "", "every 16").second, 16, 0.5);
  for (const char* trigger : {"every 1", "every 4", "every 16"}) {
    const auto [signs, fewer] = loss("cd-adam", "sign", trigger);
    EXPECT_NEAR(signs, plain, 0.005 * plain) << trigger;
    EXPECT_LT(fewer, bytes / 4) << "at 32 parameters a message is mostly its head";
  }
}

TEST(MethodStudy, TunesRepeatsAndTells) {
  MethodStudyOptions options;
  options.problem = {.name = "quadratic", .workers = 3};
  options.trial = {.workers = 3, .steps = 30, .score_every = 10};
  options.entries = {entry_of("awc", "ring-static"), entry_of("choco, sign", "ring-static")};
  options.seeds = {1, 2};
  options.sgd_rates = {1e-6, 1e-3, 0.05, 100};
  validate(options);
  std::vector<std::string> lines;
  std::vector<MethodRow> rows;
  for (const Entry& entry : options.entries)
    rows.push_back(study_method(options, entry, [&](const std::string& line) { lines.push_back(line); }));
  for (const MethodRow& row : rows) {
    EXPECT_EQ(row.lr, 0.05) << row.entry.name;
    EXPECT_FALSE(row.edge);
    EXPECT_EQ(row.trials.size(), 2U);
    EXPECT_NE(row.trials[0].last().score.loss, row.trials[1].last().score.loss) << "seeds differ";
    EXPECT_FALSE(row.accuracy());
  }
  EXPECT_THAT(lines, testing::Contains(HasSubstr("rate 100: diverges")));
  const std::string table = method_table(rows, "awc");
  EXPECT_THAT(table, HasSubstr("choco, sign"));
  EXPECT_THAT(table, HasSubstr("1.0x"));
  const auto json = nlohmann::json::parse(method_json(options, rows));
  EXPECT_EQ(json["methods"][1]["codec"], "sign");
  EXPECT_EQ(json["methods"][0]["runs"][1].size(), 4U) << "steps 0, 10, 20, 30";
  for (const Over over : {Over::steps, Over::bytes, Over::time}) {
    const std::string svg = method_svg(rows, over, "a < b");
    EXPECT_THAT(svg, HasSubstr("a &lt; b"));
    EXPECT_THAT(svg, HasSubstr("choco, sign"));
  }
  options.sgd_rates = {0.1, 0.1};
  EXPECT_THROW(validate(options), InputError);
  EXPECT_THROW(named_entries(all_entries("ring"), {"chocco"}, "--method"), InputError);
}

}  // namespace
}  // namespace kith::train::study

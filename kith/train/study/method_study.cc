#include "kith/train/study/method_study.h"

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/engine/options.h"

namespace kith::train::study {
namespace {

std::string digits(const char* pattern, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

// The loss at the end; what diverged is worse than anything.
double final_loss(const Trial& trial) {
  const double loss = trial.last().score.loss;
  return trial.diverged || !std::isfinite(loss) ? std::numeric_limits<double>::infinity() : loss;
}

class Tuner {
 public:
  Tuner(const MethodStudyOptions& options, const Entry& entry, const Tell& tell)
      : options_(options),
        entry_(entry),
        tell_(tell),
        rates_(entry.optimizer == "adam" ? options.adam_rates : options.sgd_rates) {}

  Trial run(const Problem& problem, double lr) const {
    TrialOptions trial = options_.trial;
    trial.lr = lr;
    const auto begin = std::chrono::steady_clock::now();
    Trial result = run_trial(problem, entry_, trial);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto& accuracy = result.last().score.accuracy;
    tell_(cat(entry_.name, ", rate ", lr, ": ",
              result.diverged ? "diverges" : "loss " + digits("%.4f", result.last().score.loss),
              accuracy && !result.diverged ? digits(", accuracy %.2f%%", 100 * *accuracy) : "",
              digits(", %.1f s", seconds)));
    return result;
  }

  // The index of the best rate.
  std::size_t best() {
    ProblemOptions of_problem = options_.problem;
    of_problem.seed = options_.tuning_seed;
    const auto problem = make_problem(of_problem);
    std::size_t at = rates_.size() / 2;
    const auto loss = [&](std::size_t index) {
      const auto [place, fresh] = losses_.try_emplace(index, 0.0);
      if (fresh) place->second = final_loss(run(*problem, rates_[index]));
      return place->second;
    };
    while (at > 0 && !(loss(at - 1) > loss(at)))
      --at;
    while (at + 1 < rates_.size() && loss(at + 1) < loss(at))
      ++at;
    return at;
  }
  double rate(std::size_t index) const { return rates_[index]; }
  bool edge(std::size_t index) const {
    return rates_.size() > 1 && (index == 0 || index + 1 == rates_.size());
  }

 private:
  const MethodStudyOptions& options_;
  const Entry& entry_;
  const Tell& tell_;
  const std::vector<double>& rates_;
  std::map<std::size_t, double> losses_;
};

template <class Number>
double mean_over(const MethodRow& row, const Number& number) {
  double sum = 0;
  for (const Trial& trial : row.trials)
    sum += number(trial.last()) / static_cast<double>(row.trials.size());
  return sum;
}

}  // namespace

void validate(const MethodStudyOptions& options) {
  if (options.entries.empty())
    throw InputError("no methods", "--method", "name one, or leave it out for all");
  if (options.seeds.empty()) throw InputError("no seeds", "--seeds", "such as 1,2,3");
  if (options.trial.steps < 1) throw InputError(cat(options.trial.steps), "--steps", "at least 1");
  if (options.trial.score_every < 1)
    throw InputError(cat(options.trial.score_every), "--score-every", "at least 1");
  if (options.trial.workers < 2) throw InputError(cat(options.trial.workers), "--workers", "at least 2");
  for (const auto* const rates : {&options.sgd_rates, &options.adam_rates}) {
    if (rates->empty()) throw InputError("no rates", "--rates", "such as 0.01,0.1");
    for (std::size_t k = 0; k < rates->size(); ++k) {
      if (!((*rates)[k] > 0) || (k > 0 && (*rates)[k] <= (*rates)[k - 1]))
        throw InputError(cat((*rates)[k]), "--rates", "above 0, ascending");
    }
  }
}

MethodRow study_method(const MethodStudyOptions& options, const Entry& entry, const Tell& tell) {
  Tuner tuner(options, entry, tell);
  const std::size_t best = tuner.best();
  MethodRow row{entry, tuner.rate(best), tuner.edge(best), {}};
  for (const std::uint64_t seed : options.seeds) {
    ProblemOptions of_problem = options.problem;
    of_problem.seed = seed;
    row.trials.push_back(tuner.run(*make_problem(of_problem), row.lr));
  }
  return row;
}

Estimate MethodRow::loss() const {
  std::vector<double> values;
  for (const Trial& trial : trials)
    values.push_back(final_loss(trial));
  return estimate(values);
}

std::optional<Estimate> MethodRow::accuracy() const {
  std::vector<double> values;
  for (const Trial& trial : trials) {
    if (!trial.last().score.accuracy) return {};
    values.push_back(100 * *trial.last().score.accuracy);
  }
  return estimate(values);
}

double MethodRow::bytes_per_step() const {
  return mean_over(*this, [](const TrialPoint& last) {
    return last.bytes / static_cast<double>(std::max<std::int64_t>(1, last.steps));
  });
}

double MethodRow::modelled_s() const {
  return mean_over(*this, [](const TrialPoint& last) { return last.modelled_s; });
}

double MethodRow::distance() const {
  return mean_over(*this, [](const TrialPoint& last) { return last.distance; });
}

}  // namespace kith::train::study

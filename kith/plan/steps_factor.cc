#include "kith/plan/steps_factor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "kith/base/check.h"

namespace kith::plan {
namespace {

constexpr std::string_view kReference = "aer";

// A GPT of 3.26 million parameters on a GPU, 8 workers of 1,024 tokens, tuned rates, four paired seeds. An
// earlier measurement, of three seeds and rates that were not tuned, gave 1.15 (1.02 to 1.28), and 1.39
// without rates for noisy gradients.
constexpr std::array kMeasured{
    MeasuredFactor{"AdamW with rates for noisy gradients, awc", "aer", 8, 3000, 1.29, 1.06, 1.57,
                   "docs/results/quality.md"},
};

// From one worker, who needs no more steps than all-reduce, to the rows of a topology.
std::vector<MeasuredFactor> rows_of(std::string_view topology) {
  std::vector<MeasuredFactor> rows{MeasuredFactor{.workers = 1}};
  std::ranges::copy_if(kMeasured, std::back_inserter(rows),
                       [&](const MeasuredFactor& row) { return row.topology == topology; });
  return rows;
}

}  // namespace

std::span<const MeasuredFactor> measured_factors() {
  return kMeasured;
}

StepsFactor steps_factor(std::string_view topology, int workers) {
  KITH_CHECK(workers >= 1, "a world has a worker");
  if (workers == 1) return {};
  std::vector<MeasuredFactor> rows = rows_of(topology);
  const bool own = rows.size() > 1;
  if (!own) rows = rows_of(kReference);
  std::size_t right = 1;
  while (right + 1 < rows.size() && rows[right].workers < workers)
    ++right;
  const MeasuredFactor &a = rows[right - 1], &b = rows[right];
  const double way = std::log(static_cast<double>(workers) / a.workers) /
                     std::log(static_cast<double>(b.workers) / a.workers);
  const auto between = [&](double from, double to) { return from * std::pow(to / from, way); };
  return {.factor = between(a.factor, b.factor),
          .low = between(a.low, b.low),
          .high = between(a.high, b.high),
          .measured = own && workers == b.workers};
}

std::string text_of(const StepsFactor& steps) {
  if (!steps.known) return "?";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s%.2f (%.2f to %.2f)", steps.measured ? "" : "~", steps.factor,
                steps.low, steps.high);
  return text.data();
}

}  // namespace kith::plan

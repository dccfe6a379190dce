#pragma once

#include <string>
#include <vector>

#include "kith/observe/run_reader.h"
#include "kith/plan/profile.h"

namespace kith::observe {

struct ReportOptions {
  double now = 0;                          // Unix time
  const plan::Profile* profile = nullptr;  // to set the plan against what was measured; null: without
};

// One HTML file that is whole in itself: configuration, curves, waits, what happened around the slowest
// steps, faults and their cost, plan against measured, environment.
std::string report_html(const RunReader& run, const ReportOptions& options);

// Rows of {what, predicted, measured}, the first of them titles. InputError when the run is none that the
// planner knows (its topology cannot be built for the profile's nodes, its wire is none of the planner's).
std::vector<std::vector<std::string>> plan_against_measured(const RunReader& run,
                                                            const plan::Profile& profile);

// Runs laid over each other, with time, steps or bytes on the axis, the numbers they ended with, and the
// settings in which they differ. REQUIRES: at least one run.
std::string compare_html(const std::vector<const RunReader*>& runs, const std::string& title);
// The numbers they ended with: a row per number, a column per run, the first row and column titles.
std::vector<std::vector<std::string>> compare_table(const std::vector<const RunReader*>& runs);

}  // namespace kith::observe

#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "kith/plan/recommend.h"
#include "kith/plan/sweep.h"
#include "kith/plan/why.h"

namespace kith::cli {

// Everything `kith plan` says about one profile.
struct PlanReport {
  plan::Profile profile;
  std::vector<plan::Prediction> predictions;  // fastest first
  plan::Recommendation recommendation;
  std::vector<std::string> outlook;
};

// Every candidate as profiled, the variations of the choice and of all-reduce, the choice and why.
void print_plan(std::ostream& out, const PlanReport& report);
nlohmann::ordered_json to_json(const PlanReport& report);

void print_why(std::ostream& out, const plan::Why& why);
nlohmann::ordered_json to_json(const plan::Why& why);

void print_map(std::ostream& out, const plan::Map& map);
nlohmann::ordered_json to_json(const plan::Map& map);

}  // namespace kith::cli

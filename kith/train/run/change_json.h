#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "kith/train/run/summary.h"

namespace kith::train {

// Who was lost, who came and who left, as summary.json has it, and what newcomers are told. Reading them
// throws what nlohmann throws.
nlohmann::ordered_json json_of(const std::vector<Loss>& losses);
nlohmann::ordered_json json_of(const std::vector<Passage>& passages);
std::vector<Loss> losses_in(const nlohmann::ordered_json& json);
std::vector<Passage> passages_in(const nlohmann::ordered_json& json);

}  // namespace kith::train

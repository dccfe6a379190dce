#pragma once

#include "kith/train/config/job.h"

namespace kith::train {

// The part of check_combinations that concerns the model and its data.
void check_workload(const Job& job, const Origins& origins);

}  // namespace kith::train

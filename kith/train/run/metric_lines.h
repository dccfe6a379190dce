#pragma once

#include <string>

#include "kith/train/run/metrics.h"

namespace kith::train {

// Each kind as a line of metrics.jsonl, without the newline. Numbers that JSON lacks (NaN, infinity) become
// null.
std::string line_of(const StepMetrics& metrics);
std::string line_of(const EvalMetrics& metrics);
std::string line_of(const StartMetrics& metrics);
std::string line_of(const MembersMetrics& metrics);
std::string line_of(const LossMetrics& metrics);
std::string line_of(const LinkMetrics& metrics);
std::string line_of(const EndMetrics& metrics);

}  // namespace kith::train

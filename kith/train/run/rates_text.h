#pragma once

#include <string>

#include "kith/train/data_parallel.h"

namespace kith::train {

// What became of the rates of a model whose noise was measured, and why, in a line for people.
std::string rates_text(DecentralizedDataParallel& model);

}  // namespace kith::train

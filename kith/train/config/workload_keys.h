#pragma once

#include <span>

#include "kith/train/config/schema.h"

namespace kith::train {

// The parts of the schema that say what is trained, and on what.
std::span<const Key> model_keys();
std::span<const Key> data_keys();

}  // namespace kith::train

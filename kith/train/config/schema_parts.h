#pragma once

#include <span>

#include "kith/train/config/schema.h"

namespace kith::train {

// Parts of the schema that have files of their own.
std::span<const Key> optimizer_keys();  // optimizer.*, rate.*

}  // namespace kith::train

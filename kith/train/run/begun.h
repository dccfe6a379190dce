#pragma once

#include <string_view>

namespace kith::train {

// In the run's store once all workers have found each other: from then on the others can go on without one.
inline constexpr std::string_view kBegunKey = "train/begun";

// With a worker's number behind it: the steps that it had made when it left on purpose, a space, and why.
inline constexpr std::string_view kLeaverKey = "train/leaver/";

}  // namespace kith::train

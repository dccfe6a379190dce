#pragma once

#include <functional>
#include <string_view>

#include "kith/train/data_parallel.h"

namespace kith::train {

// Something that everybody does after the same step, again among those who are left where a worker is lost in
// it (OnLost::reform). `lost` is called whenever the members may have changed. What the others have finished
// and left behind by a step (engine::Overtaken) is left out, and said under the name `what`.
void together(DecentralizedDataParallel& wrapped, std::string_view what, const std::function<void()>& work,
              const std::function<void()>& lost);

}  // namespace kith::train

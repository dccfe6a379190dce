#include "kith/train/gradient_graphs.h"

#include "kith/base/check.h"

namespace kith::train {

class GradientGraphs::Impl {};

GradientGraphs::GradientGraphs(std::vector<torch::Tensor> /*parameters*/, Forward /*forward*/) {
  KITH_CHECK(false, "nobody records passes where graphs_obstacle() tells one");
}
GradientGraphs::~GradientGraphs() = default;

torch::Tensor GradientGraphs::run(const Batch& /*batch*/, double /*weight*/) {
  return {};
}

std::string graphs_obstacle(torch::Device /*device*/) {
  return "this kith was built without CUDA";
}

std::shared_ptr<void> own_stream(torch::Device /*device*/) {
  return nullptr;
}

}  // namespace kith::train

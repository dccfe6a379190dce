// Loss scaling and 16-bit arithmetic under a float model.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "kith/train/compat.h"
#include "kith/train/grad_scaler.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;

Options skipping(const std::string& algorithm = "awc") {
  Options options = options_for(algorithm, "adam");
  options.non_finite = NonFinite::skip;
  return options;
}

TEST(GradScaler, IsInvisibleWhereNothingOverflows) {
  const auto train = [](bool scaled) {
    Alone alone;
    Network network = make_network();
    DecentralizedDataParallel model(network.ptr(), alone.world(), skipping());
    GradScaler scaler({.scale = 1024, .interval = 3});
    for (int t = 0; t < 8; ++t) {
      model.zero_grad();
      model.clip_grad_norm(0.5);
      const torch::Tensor loss = loss_of(network, batch_of(0, t));
      (scaled ? scaler.scale(loss) : loss).backward();
      const StepReport report = scaled ? scaler.step(model) : model.step();
      EXPECT_FALSE(report.skipped);
      EXPECT_GT(report.gradient_norm.get(), 0);
      EXPECT_LT(report.gradient_norm.get(), 100);  // of the gradient that is not scaled
    }
    EXPECT_EQ(scaler.scale(), scaled ? 4096 : 1024);  // doubled after 3 and after 6 good steps
    return flatten(*network);
  };
  EXPECT_LT(largest_difference(train(true), train(false)), 1e-12);
}

TEST(GradScaler, BacksOffAndGrowsAgain) {
  Alone alone;
  Network network = make_network();
  DecentralizedDataParallel model(network.ptr(), alone.world(), skipping());
  GradScaler scaler({.scale = 8, .interval = 2});
  const auto step = [&](double factor) {
    model.zero_grad();
    (scaler.scale(loss_of(network, batch_of(0, 0))) * factor).backward();
    return scaler.step(model).skipped;
  };
  const std::vector<double> start = flatten(*network);
  EXPECT_TRUE(step(std::numeric_limits<double>::infinity()));
  EXPECT_EQ(scaler.scale(), 4);
  EXPECT_EQ(flatten(*network), start);
  EXPECT_FALSE(step(1));
  EXPECT_TRUE(step(std::numeric_limits<double>::quiet_NaN()));  // the count of good steps begins anew
  EXPECT_EQ(scaler.scale(), 2);
  EXPECT_FALSE(step(1));
  EXPECT_EQ(scaler.scale(), 2);
  EXPECT_FALSE(step(1));
  EXPECT_EQ(scaler.scale(), 4);
  EXPECT_NE(flatten(*network), start);

  GradScaler other;
  other.restore(scaler.state());
  EXPECT_EQ(other.scale(), 4);
  EXPECT_THROW(other.restore({}), InputError);
  EXPECT_THROW(GradScaler({.backoff = 2}), InputError);
}

TEST(GradScaler, KeepsTheWorkersOfAllReduceTogether) {
  const auto scales = support::run_threads(2, [](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network();
    DecentralizedDataParallel model(network.ptr(), here.world, skipping("allreduce"));
    GradScaler scaler({.scale = 64, .interval = 2});
    for (int t = 0; t < 6; ++t) {
      model.zero_grad();
      const double factor = t == 2 && worker.rank == 1 ? std::numeric_limits<double>::infinity() : 1;
      (scaler.scale(loss_of(network, batch_of(worker.rank, t))) * factor).backward();
      EXPECT_EQ(scaler.step(model).skipped, t == 2);
    }
    return cat(scaler.scale());
  });
  EXPECT_EQ(scales[0], "128");  // 64, doubled, halved, doubled
  EXPECT_EQ(scales[1], scales[0]);
}

TEST(Autocast, ComputesIn16BitsAndTrainsFloatParameters) {
  Alone alone;
  Network network = make_network(torch::kFloat32);
  DecentralizedDataParallel model(network.ptr(), alone.world(), skipping());
  const torch::Tensor x = to_tensor(batch_of(0, 0).x, torch::kFloat32);
  const torch::Tensor exact = network->forward(x).detach();
  const auto forward = [&] {
    const compat::Autocast autocast(test_device().type(), torch::kBFloat16);
    return network->forward(x);
  };
  const torch::Tensor rounded = forward();
  EXPECT_EQ(rounded.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(network->forward(x).scalar_type(), torch::kFloat32) << "the guard has ended";
  const double error = (rounded.to(torch::kFloat32) - exact).abs().max().item<double>();
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.05);
  const std::vector<double> before = flatten(*network);
  rounded.to(torch::kFloat32).sum().backward();
  EXPECT_EQ(network->first->weight.grad().scalar_type(), torch::kFloat32);
  model.step();
  EXPECT_NE(flatten(*network), before);
  // What was cast of the old parameters is not used for the new ones.
  EXPECT_FALSE(torch::equal(forward(), rounded));
}

TEST(PendingValue, GivesTheNumberOfItsTime) {
  Alone alone;
  Network network = make_network();
  DecentralizedDataParallel model(network.ptr(), alone.world(), skipping());
  torch::Tensor number =
      torch::full({}, 3.5, torch::TensorOptions().dtype(torch::kFloat64).device(test_device()));
  const PendingValue value = model.read(number);
  number.fill_(7);
  EXPECT_EQ(value.get(), 3.5);
}

}  // namespace
}  // namespace kith::train

// Wrapped models whose workers die.
#include <thread>

#include <gmock/gmock.h>

#include "kith/train/checkpoint.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;

// Parameters move to other memory with the view, in a step and in an average; what is left of the module is
// whole, and so are edits and checkpoints of those who are left.
TEST(Survival, TheOthersGoOn) {
  for (const std::string name : {"awc", "atc", "dsgt", "allreduce", "inside"}) {
    Options options = options_for(name == "inside" ? "awc" : name, "adam", "ring");
    if (name == "inside") {
      options.inside = "allreduce";
      options.nodes = "2x2";
    }
    const support::TempFolder folder;
    const auto reports = support::run_threads(4, [&](Worker& worker) {
      TestWorld here(worker);
      Network network = make_network();
      std::uint32_t view = 0;
      double sum = 0;
      {
        DecentralizedDataParallel model(network.ptr(), here.world, options);
        const auto steps = [&](int until) {
          while (model.steps() < until) {
            backward(model, network);
            view = model.step().view;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        };
        steps(5);
        if (worker.rank == 2) support::die(worker);
        steps(20);
        model.barrier();
        EXPECT_EQ(model.world().size(), 3);
        {
          const auto edit = model.edit();
          const torch::NoGradGuard no_grad;
          for (torch::Tensor& parameter : model.module()->parameters())
            parameter.mul_(0.5);
        }
        steps(25);
        if (worker.rank == 3) support::die(worker);
        {
          const auto average = model.average();
          for (const torch::Tensor& parameter : model.module()->parameters())
            sum += parameter.detach().to(torch::kFloat64).sum().item<double>();
        }
        steps(40);
        save_checkpoint(model, {.root = folder.path()});
      }
      for (const torch::Tensor& parameter : network->parameters())
        EXPECT_TRUE(torch::isfinite(parameter).all().item<bool>());
      return cat(view, " ", sum);
    });
    EXPECT_EQ(reports[0], reports[1]) << name;
    EXPECT_TRUE(reports[0].starts_with("2 ")) << reports[0];
    EXPECT_EQ(verify_checkpoint(list_checkpoints(folder.path()).front()).workers(), 2) << name;
  }
}

}  // namespace
}  // namespace kith::train

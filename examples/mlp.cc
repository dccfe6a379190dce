// Four workers learn y = x0 * x1 together without a global barrier, each averaging its model with one
// neighbour a step.
#include <cstdio>

#include <torch/nn.h>

#include "kith/train/data_parallel.h"
#include "kith/train/local_world.h"

int main() {
  kith::train::run_threads(4, [](const kith::engine::World& world) {
    torch::nn::Sequential net(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
    kith::train::Options options;
    options.engine.schedule.topology = "exp";  // or aer, ring, base, ...
    options.engine.algorithm = "awc";          // or atc, dsgt, allreduce, none: the loop stays as it is
    options.lr = 1e-2;
    kith::DecentralizedDataParallel model(net.ptr(), world, options);

    for (int step = 0; step < 2000; ++step) {
      const torch::Tensor x = 2 * torch::rand({64, 2}) - 1;
      model.zero_grad();
      torch::mse_loss(net->forward(x), x.prod(1, /*keepdim=*/true)).backward();
      model.step();
    }

    const double distance = model.consensus_distance();
    const auto mean =
        model.average();  // until the end of the scope the module is the mean of all workers' models
    const torch::Tensor x = torch::tensor({{0.5, 0.5}, {-0.5, 1.0}});
    if (world.rank() != 0) return;
    const torch::Tensor y = net->forward(x);
    std::printf("0.5 * 0.5 = %.3f, -0.5 * 1 = %.3f, consensus distance %.4f\n", y[0].item<double>(),
                y[1].item<double>(), distance);
  });
}

// Four workers learn y = x0 * x1 together without a global barrier, each averaging its model with one
// neighbour a step.
#include <cstdio>

#include <torch/nn.h>

#include "kith/kith.h"

int main() {
  // Threads of one process. A program for many machines has `const kith::World world = kith::join();`
  // instead.
  kith::run_threads(4, [](const kith::World& world) {
    torch::nn::Sequential net(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
    // Or aer, ring, base, ...; with .algorithm = "allreduce" (atc, dsgt, ...) the loop stays as it is.
    kith::DecentralizedDataParallel model(net.ptr(), world,
                                          {.topology = "exp", .lr = 1e-2, .weight_decay = 0});

    for (int step = 0; step < 2000; ++step) {
      const torch::Tensor x = 2 * torch::rand({64, 2}) - 1;
      model.zero_grad();
      torch::mse_loss(net->forward(x), x.prod(1, /*keepdim=*/true)).backward();
      model.step();
    }

    const double distance = model.consensus_distance();
    // Until the end of the scope the module is the mean of all workers' models.
    const auto mean = model.average();
    const torch::Tensor x = torch::tensor({{0.5, 0.5}, {-0.5, 1.0}});
    if (world.rank() != 0) return;
    const torch::Tensor y = net->forward(x);
    std::printf("0.5 * 0.5 = %.3f, -0.5 * 1 = %.3f, consensus distance %.4f\n", y[0].item<double>(),
                y[1].item<double>(), distance);
  });
}

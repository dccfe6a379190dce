// multi_host STEPS FOLDER: learns to tell two spirals apart, on as many workers and machines as it is started
// on:
//
//   ./multi_host 400 run                                        one process
//   kith launch --workers 4 -- ./multi_host 400 run             four of this machine
//   kith launch --hosts node1:2,node2:2 -- ./multi_host 400 run
//   mpirun -n 4 ./multi_host 400 run                            also torchrun, srun
//
// Checkpoints go to FOLDER, which all machines see; started again, it goes on from the newest one.
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <torch/nn.h>

#include <kith/kith.h>

#include "spirals.h"

struct NetImpl : torch::nn::Module {
  NetImpl() {
    layers->push_back(torch::nn::Linear(2, 64));
    layers->push_back(torch::nn::Tanh());
    layers->push_back(torch::nn::Linear(64, 64));
    layers->push_back(torch::nn::Tanh());
    layers->push_back(torch::nn::Linear(64, 2));
    register_module("layers", layers);
  }
  torch::Tensor forward(const torch::Tensor& x) { return layers->forward(x); }
  torch::nn::Sequential layers;
};
TORCH_MODULE(Net);

void train(std::int64_t steps, const std::filesystem::path& folder) {
  const kith::World world = kith::join({.facts = {{"steps", std::to_string(steps)}}});
  torch::set_num_threads(1);

  kith::Options options{.topology = "aer", .lr = 3e-3, .weight_decay = 0};
  if (const auto newest = kith::newest_valid_checkpoint(folder)) options.resume_from = *newest;
  torch::manual_seed(1);  // the first model is worker 0's
  Net net;
  kith::DecentralizedDataParallel model(net.ptr(), world, options);
  Loader loader(spirals(4000, 1), world.rank(), world.size(), 32);
  if (model.resumed()) loader.seek(model.resumed()->position);
  if (world.rank() == 0) {
    std::cout << world.size() << " workers on nodes of " << model.engine().options().schedule.shape.text()
              << ", from step " << model.steps() << std::endl;
  }

  while (model.steps() < steps) {
    const Points batch = loader.next();
    model.zero_grad();
    torch::nn::functional::cross_entropy(net->forward(batch.x), batch.y).backward();
    model.step();
    if (model.steps() % 50 == 0 || model.steps() == steps)
      kith::save_checkpoint(model, {.root = folder, .position = loader.position()});
  }

  {
    const auto mean = model.average();  // the module is the mean of all workers' models in this scope
    const torch::NoGradGuard no_grad;
    const Points held_out = spirals(1000, 2);
    const auto right = net->forward(held_out.x).argmax(1).eq(held_out.y).sum().item<std::int64_t>();
    if (world.rank() == 0) std::cout << right << " of 1000 held-out points are right" << std::endl;
  }
  kith::export_model(model, folder / "model");  // for torch::load in C++, torch.load in Python
}

int main(int argc, char** argv) {
  const std::int64_t steps = argc == 3 ? std::atoll(argv[1]) : 0;
  if (steps < 1) {
    std::cerr << "usage: multi_host STEPS FOLDER\n";
    return 2;
  }
  try {
    train(steps, argv[2]);
    return 0;
  } catch (const kith::InputError& error) {  // what the user can mend
    std::cerr << "multi_host: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {  // a lost worker, a full disk, ...
    std::cerr << "multi_host: " << error.what() << "\n";
    return 1;
  }
}

#include "bench/common/contestant.h"

#include "kith/base/dtype.h"

namespace kith::bench {

torch::nn::Sequential make_net(const Problem& problem) {
  torch::nn::Sequential net;
  std::int64_t width = problem.inputs;
  const torch::NoGradGuard guard;
  int index = 0;
  const auto add = [&](std::int64_t outputs) {
    torch::nn::Linear layer(width, outputs);
    const auto k = torch::arange(width * outputs, torch::kFloat64);
    layer->weight.copy_((0.03 * torch::sin(0.37 * k + index++)).view({outputs, width}));
    layer->bias.zero_();
    net->push_back(layer);
    width = outputs;
  };
  for (std::int64_t l = 0; l < problem.hidden_layers; ++l) {
    add(problem.hidden);
    net->push_back(torch::nn::ReLU());
  }
  add(Problem::kOutputs);
  return net;
}

graph::Shape shape_for(const std::string& mode, int workers) {
  const bool pairs = mode.starts_with("aer") && workers % 2 == 0 && workers > 2;
  return pairs ? graph::Shape(std::vector<int>(static_cast<std::size_t>(workers / 2), 2))
               : graph::Shape::single_node(workers);
}

train::Options options_for(const std::string& mode, const graph::Shape& shape) {
  const std::string name = mode.substr(0, mode.find('-'));
  train::Options options;
  options.name = mode;
  options.optimizer = "adamw";
  options.lr = Problem::kLr;
  options.beta2 = 0.999;
  options.weight_decay = 0.01;
  options.non_finite = train::NonFinite::use;
  options.nodes = shape.text();
  const bool mixes = name != "none" && name != "allreduce";
  options.algorithm = mixes ? "awc" : name;
  if (mixes) options.topology = name;
  if (name.size() < mode.size()) options.wire = parse_wire(mode.substr(name.size() + 1), "wire");
  return options;
}

Contestant::Contestant(const engine::WorldParts& world, Rank rank, const Problem& problem,
                       const train::Options& options)
    : world_(world),
      net_(make_net(problem)),
      model_(net_.ptr(), world, options),
      x_(torch::cos(0.11 * torch::arange(problem.batch * problem.inputs, torch::kFloat64) + 3 * rank)
             .to(torch::kFloat32)
             .view({problem.batch, problem.inputs})),
      y_(torch::arange(problem.batch, torch::kInt64).remainder(Problem::kOutputs)) {}

Lap Contestant::run(int untimed, int timed) {
  model_.barrier();
  Lap lap;
  Clock::Time start{};
  for (int i = -untimed; i < timed; ++i) {
    if (i == 0) {
      lap = {};
      start = world_.clock->now();
    }
    model_.zero_grad();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(net_->forward(x_), y_);
    loss.backward();
    const Clock::Time before = world_.clock->now();
    lap.waited += seconds(model_.step().waited);
    lap.stepped += seconds(world_.clock->now() - before);
    lap.loss = loss.item<double>();
  }
  lap.seconds = seconds(world_.clock->now() - start);
  return lap;
}

}  // namespace kith::bench

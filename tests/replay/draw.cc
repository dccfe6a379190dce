#include <algorithm>

#include "kith/base/text.h"
#include "kith/optim/methods.h"
#include "tests/replay/scenario.h"

namespace kith::replay {
namespace {

constexpr std::uint64_t kPointsAStep = 60;  // of one worker, about

template <class T>
const T& one_of(Rng& rng, const std::vector<T>& choices) {
  return choices[rng.below(choices.size())];
}

engine::EngineOptions draw_options(Rng& rng, const std::string& algorithm) {
  const optim::Method& method = optim::method_of(algorithm);
  engine::EngineOptions options;
  options.algorithm = algorithm;
  options.optimizer.name = method.optimizer == "sgd" ? "sgd" : "adamw";
  if (method.optimizer == "adam") options.optimizer.name = "adam";
  options.bucket_bytes = 100;
  options.stagger = false;
  options.patience = std::chrono::seconds(30);
  options.reforms = true;
  const bool directed = algorithm == "sgp" || algorithm == "q-push";
  options.schedule.topology = one_of<std::string>(rng, {"complete", "ring", "exp", "aer", "ring-static"});
  if (directed) options.schedule.topology = "exp-directed";
  if (algorithm == "diloco") options.schedule.topology = "complete";
  if (algorithm == "noloco") options.schedule.topology = "matching";
  if (method.takes_rounds && rng.below(3) == 0) options.method.rounds = 2;
  if (method.takes_outer) options.trigger = "every 2";
  if (method.codec == optim::Method::Codec::needed) options.codec = directed ? "qsgd 8" : "sign";
  if (method.codec == optim::Method::Codec::possible && !directed && rng.below(6) == 0)
    options.codec = "sign";
  if (options.codec.empty() && rng.below(4) == 0) options.layout = engine::Layout::staged;
  return options;
}

// Those that average models, and whose mass nobody counts.
const std::vector<std::string>& methods_of_nodes() {
  static const std::vector<std::string> names{"awc", "atc", "dsgd", "dsgt", "diloco", "noloco", "none"};
  return names;
}

// One node, or two of any size, on a machine each or all on one.
void draw_nodes(Rng& rng, Scenario& scenario) {
  const auto workers = static_cast<std::uint64_t>(scenario.workers);
  const int first = rng.below(5) == 0 ? scenario.workers : 1 + static_cast<int>(rng.below(workers - 1));
  std::vector<int> sizes{first};
  if (first < scenario.workers) sizes.push_back(scenario.workers - first);
  scenario.options.inside = "allreduce";
  scenario.options.codec.clear();
  scenario.options.schedule.shape = graph::Shape(sizes);
  scenario.machines.clear();
  if (rng.below(3) > 0) return;
  for (int i = 0; i < scenario.workers; ++i)
    scenario.machines.push_back(scenario.options.schedule.shape.node_of(i));
}

std::vector<Fault> draw_faults(Rng& rng, int workers, std::uint64_t points) {
  std::vector<int> order(static_cast<std::size_t>(workers));
  for (int i = 0; i < workers; ++i)
    order[static_cast<std::size_t>(i)] = i;
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[rng.below(i)]);
  const std::uint64_t weights[] = {0, 1, 1, 1, 1, 2, 2, 2, 3, 5};
  const std::size_t kills = std::min<std::size_t>(weights[rng.below(10)], order.size() - 1);
  std::vector<Fault> faults;
  for (std::size_t k = 0; k < kills; ++k) {
    Fault fault{Fault::Kind::kill, order[k]};
    fault.points = rng.below(points);
    // Often while the death before it is being dealt with.
    if (k > 0 && rng.below(2) == 0) {
      fault.since = Fault::Since::first_death;
      fault.points = rng.below(8 * kPointsAStep);
      if (rng.below(2) == 0) {
        fault.at = one_of<std::string>(rng, {"/called", "/at/", "/view", "/open/", "/outcome", "open view"});
        fault.points = rng.below(3);
      }
    }
    faults.push_back(fault);
  }
  return faults;
}

}  // namespace

Scenario draw(std::uint64_t seed, const DrawOptions& asked) {
  Rng rng(hash_words(seed, 2));
  Scenario scenario;
  scenario.seed = seed;
  scenario.bug = asked.bug;
  const auto methods = optim::methods();
  const std::vector<std::string>& of_nodes = methods_of_nodes();
  const std::string algorithm(!asked.algorithm.empty() ? asked.algorithm
                              : asked.nodes_are_models ? of_nodes[seed % of_nodes.size()]
                                                       : methods[seed % methods.size()].name);
  scenario.workers = 3 + static_cast<int>(rng.below(3));
  scenario.options = draw_options(rng, algorithm);
  scenario.options.schedule.shape = graph::Shape::single_node(scenario.workers);
  const bool directed = algorithm == "sgp" || algorithm == "q-push";
  if (scenario.options.codec.empty() && !directed && rng.below(4) == 0) {
    for (int i = 0; i < scenario.workers; ++i)
      scenario.machines.push_back(i % 2);
  }
  if (asked.nodes_are_models) draw_nodes(rng, scenario);
  const std::uint64_t steps = 5 + rng.below(6);
  for (std::uint64_t t = 0; t < steps; ++t)
    scenario.operations.push_back(rng.below(3) == 0 ? static_cast<Operation>(1 + rng.below(4))
                                                    : Operation::none);
  scenario.faults = draw_faults(rng, scenario.workers, (steps + 2) * kPointsAStep);
  scenario.travels = rng.below(2) == 0;
  if (rng.below(5) == 0 && algorithm != "q-push") {
    Fault pause{Fault::Kind::pause,
                static_cast<int>(rng.below(static_cast<std::uint64_t>(scenario.workers)))};
    pause.points = rng.below(steps * kPointsAStep);
    pause.pause = std::chrono::milliseconds(one_of<int>(rng, {5, 300, 3'000, 45'000}));
    scenario.slow = pause.pause > std::chrono::seconds(25);
    scenario.faults.push_back(pause);
  }
  return scenario;
}

std::string text_of(const Scenario& scenario) {
  std::string text =
      cat("seed ", scenario.seed, ": ", scenario.options.algorithm, " on ",
          scenario.options.schedule.topology, ", ", scenario.workers, " workers",
          scenario.options.inside == "none"
              ? ""
              : cat(" in nodes of ", scenario.options.schedule.shape.text(), " that are models"),
          scenario.machines.empty() ? "" : " on 2 machines", ", ", scenario.operations.size(), " steps");
  if (!scenario.options.codec.empty()) text += cat(", codec ", scenario.options.codec);
  if (scenario.travels) text += ", what is published travels";
  for (const Fault& fault : scenario.faults)
    text += cat("; ", text_of(fault));
  if (scenario.bug != Bug::none) text += cat("; planted: ", name_of(scenario.bug));
  return text;
}

}  // namespace kith::replay

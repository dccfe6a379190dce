#include "kith/optim/methods.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "kith/base/text.h"
#include "kith/optim/algorithm.h"

namespace kith::cli {
namespace {

// What a method costs with fp32 parameters and an fp32 wire, in bytes per parameter.
struct Cost {
  int memory = 0;   // beside parameter, gradient and the optimizer's state
  int message = 0;  // to every reader, in a step that mixes, with one round
};

Cost cost_of(const optim::Algorithm<float>& algorithm) {
  Cost cost;
  cost.memory = static_cast<int>(algorithm.states().size() * sizeof(float));
  for (const optim::ChannelSpec& channel : algorithm.channels()) {
    cost.memory += channel.is_model ? 4 : 8;  // two slots, one of which is then the parameter itself
    cost.message += 4;
  }
  // Means of gradients lie beside them.
  if (algorithm.exchange() == optim::Exchange::gradients) cost = {.memory = 4, .message = 4};
  return cost;
}

std::string needs_of(const optim::Method& method, const optim::Algorithm<float>& algorithm) {
  std::string needs;
  if (algorithm.needs_directed_schedule()) needs = "a directed topology";
  if (algorithm.exchange() == optim::Exchange::gradients) needs = "everybody in every step";
  if (!method.optimizer.empty()) {
    needs += cat(needs.empty() ? "" : ", ", "optimizer ", method.optimizer,
                 method.optimizer == "adam" ? " or adamw" : "");
  }
  if (method.codec == optim::Method::Codec::needed) needs += cat(needs.empty() ? "" : ", ", "a codec");
  return needs.empty() ? "nothing" : needs;
}

std::vector<std::string> reads_of(const optim::Method& method) {
  std::vector<std::string> keys;
  if (method.takes_rounds) {
    keys.emplace_back("algorithm.rounds");
    keys.emplace_back("algorithm.control");
  }
  if (method.takes_order) keys.emplace_back("algorithm.order");
  if (method.takes_outer)
    keys.insert(keys.end(), {"algorithm.trigger", "algorithm.outer_momentum", "algorithm.outer_rate"});
  if (method.name == "noloco") keys.emplace_back("algorithm.outer_pull");
  if (method.codec != optim::Method::Codec::none) keys.emplace_back("wire.codec");
  return keys;
}

void print_json() {
  nlohmann::json out = nlohmann::json::array();
  for (const optim::Method& method : optim::methods()) {
    const auto algorithm = optim::make_algorithm<float>(method.name);
    const Cost cost = cost_of(*algorithm);
    out.push_back({{"name", method.name},
                   {"summary", method.summary},
                   {"formula", method.formula},
                   {"memory_bytes_per_parameter", cost.memory},
                   {"message_bytes_per_parameter", cost.message},
                   {"directed", algorithm->needs_directed_schedule()},
                   {"optimizer", method.optimizer},
                   {"needs_codec", method.codec == optim::Method::Codec::needed},
                   {"state", algorithm->states()},
                   {"reads", reads_of(method)}});
  }
  std::printf("%s\n", out.dump(2).c_str());
}

void print_table() {
  std::printf("%-10s %6s %7s  %s\n", "method", "memory", "message", "");
  for (const optim::Method& method : optim::methods()) {
    const auto algorithm = optim::make_algorithm<float>(method.name);
    const Cost cost = cost_of(*algorithm);
    const std::string name(method.name), summary(method.summary), formula(method.formula);
    std::printf("%-10s %6d %7d  %s\n", name.c_str(), cost.memory, cost.message, summary.c_str());
    std::printf("%26s x_i <- %s\n", "", formula.c_str());
    std::printf("%26s needs %s", "", needs_of(method, *algorithm).c_str());
    const std::vector<std::string> keys = reads_of(method);
    std::printf(keys.empty() ? "\n" : "; reads %s\n", join(keys).c_str());
  }
  std::printf(
      "\nmemory: bytes per fp32 parameter beside parameter, gradient and the optimizer's state\n"
      "message: bytes per fp32 parameter to every reader, per round of a step that mixes\n"
      "With a codec a message is as long as that says, and 4 bytes more of memory go to each neighbour and "
      "oneself.\n");
}

}  // namespace

void add_methods(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("methods", "List the methods of training: formula, cost, needs");
  command->add_flag("--json", *as_json, "For programs");
  command->callback([as_json] { *as_json ? print_json() : print_table(); });
}

}  // namespace kith::cli

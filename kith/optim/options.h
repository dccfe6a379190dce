#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kith::optim {

// The local rule that turns a gradient into a direction. One set for the whole model; what differs between
// parameter groups (lr, decay) travels with each segment.
struct OptimizerOptions {
  std::string name = "adamw";  // sgd, adam, adamw, accum-adam, accum-adamw
  double momentum = 0;         // sgd
  double dampening = 0;        // sgd
  bool nesterov = false;       // sgd
  double beta1 = 0.9;          // adam family
  double beta2 = 0.95;
  double eps = 1e-8;
  int commit_every = 4;  // accum-adam, accum-adamw: steps between commits of the moments
};

// In which order a method steps and mixes, where it can do both.
//   adapt_first  step, then mix what came of it: the message is waited for
//   mix_first    mix the models of the step before, then step: the message travels while the gradient is
//                computed
enum class Order : std::uint8_t { adapt_first, mix_first };

// As users write them: "adapt-first", "mix-first".
std::vector<std::string> order_names();
std::string_view name_of(Order order);
Order parse_order(std::string_view text);  // InputError

// What methods know beside their name. One set for all; a method that does not read a number refuses another
// value than the default.
struct MethodOptions {
  int rounds = 1;  // of the schedule per step that mixes: atc, mc-dsgt, and the methods built on atc
  Order order = Order::adapt_first;  // dsgd, d-adam
  // diloco, noloco: momentum and rate of the outer steps (momentum by default 0.9, 0.5), and noloco's pull
  // toward the neighbours' slow models (by default the rate).
  std::optional<double> outer_momentum = {};
  double outer_rate = 0.7;
  std::optional<double> outer_pull = {};

  bool operator==(const MethodOptions&) const = default;
};

std::vector<std::string> optimizer_names();

// Throws InputError for an unknown name or a number out of range.
void validate(const OptimizerOptions& options);

}  // namespace kith::optim

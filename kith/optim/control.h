#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace kith::optim {

// Consensus control (arXiv 2102.04828): a step mixes as many rounds as bring the models within a target of
// each other. The target is a phase's, from a step on:
//   distance 0.5            this consensus distance
//   share 0.25 of 3.2       this share of a reference, such as the distance of a run without control
//   update 2                so many times the running mean of how far a step moves a model, which falls as
//                           training goes on
//   none                    one round
// "from 0 distance 0.5, from 300 none" has two phases.
class Control {
 public:
  // InputError for what it cannot read.
  explicit Control(std::string_view text);

  // The target in a step; nothing: none. `update`: the running mean that the text may name.
  std::optional<double> target(std::int64_t step, double update) const;
  bool reads_updates() const;

 private:
  struct Phase {
    std::int64_t first = 0;
    std::optional<double> distance = {};
    std::optional<double> updates = {};
  };
  std::vector<Phase> phases_;  // ascending
};

// The rounds, at least one, after which models that were `target` apart after the last step, and moved no
// farther apart in this one than they were found to be before a mix, are `target` apart again; each round
// contracts by `contraction`. Not bounded above: a target of 0 takes more than there are.
std::int64_t rounds_for(double target, double found, double contraction);

}  // namespace kith::optim

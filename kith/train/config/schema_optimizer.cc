#include <array>

#include "kith/optim/options.h"
#include "kith/train/config/schema_parts.h"

namespace kith::train {
namespace {

using Names = std::vector<std::string>;

const std::array kOptimizer{
    Key{.name = "optimizer.name",
        .field = [](Job& j) -> Field { return &j.optimizer.name; },
        .doc = "The local rule that turns a gradient into a step.",
        .choices = optim::optimizer_names},
    Key{.name = "optimizer.weight_decay",
        .field = [](Job& j) -> Field { return &j.optimizer.weight_decay; },
        .doc = "Decay of parameters with two or more dimensions.",
        .interval = "[0, inf)"},
    Key{.name = "optimizer.momentum",
        .field = [](Job& j) -> Field { return &j.optimizer.momentum; },
        .doc = "sgd: momentum.",
        .interval = "[0, 1)"},
    Key{.name = "optimizer.dampening",
        .field = [](Job& j) -> Field { return &j.optimizer.dampening; },
        .doc = "sgd: dampening of the momentum.",
        .interval = "[0, 1]"},
    Key{.name = "optimizer.nesterov",
        .field = [](Job& j) -> Field { return &j.optimizer.nesterov; },
        .doc = "sgd: Nesterov's momentum."},
    Key{.name = "optimizer.beta1",
        .field = [](Job& j) -> Field { return &j.optimizer.beta1; },
        .doc = "adam family: decay of the first moment.",
        .interval = "[0, 1)"},
    Key{.name = "optimizer.beta2",
        .field = [](Job& j) -> Field { return &j.optimizer.beta2; },
        .doc = "adam family: decay of the second moment.",
        .interval = "[0, 1)"},
    Key{.name = "optimizer.eps",
        .field = [](Job& j) -> Field { return &j.optimizer.eps; },
        .doc = "adam family: added to the root of the second moment.",
        .interval = "(0, 1]"},
    Key{.name = "optimizer.commit_every",
        .field = [](Job& j) -> Field { return &j.optimizer.commit_every; },
        .doc = "accum-adam, accum-adamw: steps between commits of the moments.",
        .interval = "[1, 1000000]"},

    Key{.name = "optimizer.noise_every",
        .field = [](Job& j) -> Field { return &j.optimizer.noise_every; },
        .doc = "adam family, averaging models: steps between measurements of the gradients' noise, which the "
               "rates are corrected for; 0 for none.",
        .interval = "[0, 1000000]"},

    Key{.name = "rate.curve",
        .field = [](Job& j) -> Field { return &j.rate.curve; },
        .doc = "How the learning rate goes after the warm-up.",
        .choices =
            [] {
              return Names{"constant", "cosine", "inverse-sqrt", "step"};
            }},
    Key{.name = "rate.lr",
        .field = [](Job& j) -> Field { return &j.rate.lr; },
        .doc = "The largest learning rate.",
        .interval = "(0, inf)"},
    Key{.name = "rate.warmup",
        .field = [](Job& j) -> Field { return &j.rate.warmup; },
        .doc = "Steps of linear warm-up; -1 for a tenth of the steps. inverse-sqrt needs at least 1.",
        .interval = "[-1, 1e12]"},
    Key{.name = "rate.final_fraction",
        .field = [](Job& j) -> Field { return &j.rate.final_fraction; },
        .doc = "cosine: the last learning rate over the largest.",
        .interval = "[0, 1]"},
    Key{.name = "rate.every",
        .field = [](Job& j) -> Field { return &j.rate.every; },
        .doc = "step: steps between drops.",
        .interval = "[1, 1e12]"},
    Key{.name = "rate.factor",
        .field = [](Job& j) -> Field { return &j.rate.factor; },
        .doc = "step: what a drop multiplies the learning rate by.",
        .interval = "(0, 1]"},
    Key{.name = "rate.on_view",
        .field = [](Job& j) -> Field { return &j.rate.on_view; },
        .doc =
            "When workers are lost the batch of all together shrinks: keep leaves the rate as it is, scale "
            "multiplies it by the share of workers that are left.",
        .choices =
            [] {
              return Names{"keep", "scale"};
            },
        .free_on_resume = true},
};

}  // namespace

std::span<const Key> optimizer_keys() {
  return kOptimizer;
}

}  // namespace kith::train

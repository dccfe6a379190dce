#include "kith/train/models/gpt2_layout.h"

#include <array>

#include "kith/base/text.h"

namespace kith::train {
namespace {

struct Part {
  std::string_view ours, theirs;
  bool turned;
};

constexpr std::array kModelParts{Part{"table", "wte", false}, Part{"positions", "wpe", false},
                                 Part{"norm", "ln_f", false}};
constexpr std::array kBlockParts{Part{"attention_norm", "ln_1", false},
                                 Part{"attention.query_key_value", "attn.c_attn", true},
                                 Part{"attention.out", "attn.c_proj", true},
                                 Part{"mlp_norm", "ln_2", false},
                                 Part{"widen", "mlp.c_fc", true},
                                 Part{"narrow", "mlp.c_proj", true}};
constexpr std::string_view kBlock = "block";
constexpr std::string_view kPrefix = "transformer.";

}  // namespace

Gpt2Name gpt2_name(std::string_view parameter) {
  const auto dot = parameter.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view kind = parameter.substr(dot + 1);  // weight or bias
  const std::string_view module = parameter.substr(0, dot);
  for (const Part& part : kModelParts) {
    if (module == part.ours) return {cat(part.theirs, ".", kind), false};
  }
  const auto end = module.find('.');
  if (!module.starts_with(kBlock) || end == std::string_view::npos) return {};
  const std::string_view number = module.substr(kBlock.size(), end - kBlock.size());
  for (const Part& part : kBlockParts) {
    if (module.substr(end + 1) == part.ours)
      return {cat("h.", number, ".", part.theirs, ".", kind), part.turned && kind == "weight"};
  }
  return {};
}

std::string_view without_gpt2_prefix(std::string_view name) {
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

bool is_gpt2_extra(std::string_view name) {
  return name == "lm_head.weight" || name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

}  // namespace kith::train

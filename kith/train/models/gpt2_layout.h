#pragma once

#include <string>
#include <string_view>

namespace kith::train {

// Where a parameter of make_gpt's model is in Hugging Face's layout of GPT-2, the one of its published
// weights.
struct Gpt2Name {
  std::string name;     // "h.0.attn.c_attn.weight"; empty: not in that layout
  bool turned = false;  // the matrix is stored transposed there
};

Gpt2Name gpt2_name(std::string_view parameter);

// The same without the prefix that files of whole language models have: "transformer.h.0..." -> "h.0...".
std::string_view without_gpt2_prefix(std::string_view name);

// What such files hold besides weights: masks, and the table once more as the head.
bool is_gpt2_extra(std::string_view name);

}  // namespace kith::train

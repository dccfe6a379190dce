#include "kith/train/config/preset.h"

#include <algorithm>
#include <array>

#include "kith/base/check.h"

namespace kith::train {
namespace {

using Values = std::vector<PresetValue>;

struct Preset {
  std::string_view name;
  Values values;
};

// Sizes of GPT-2 without biases, and with a vocabulary that is a multiple of 64 for the 50257 tokens.
Values gpt2(std::string_view layers, std::string_view heads, std::string_view width) {
  return {{"model.name", "gpt"},   {"model.layers", layers},  {"model.heads", heads},
          {"model.width", width},  {"model.context", "1024"}, {"model.vocabulary", "50304"},
          {"model.bias", "false"}, {"data.name", "tokens"}};
}

// As the weights are published.
Values published_gpt2(std::string_view layers, std::string_view heads, std::string_view width) {
  Values values = gpt2(layers, heads, width);
  for (PresetValue& value : values) {
    if (value.key == "model.vocabulary") value.text = "50257";
    if (value.key == "model.bias") value.text = "true";
  }
  values.push_back({"model.gelu", "tanh"});
  return values;
}

// Of "Attention is all you need", with its rates' curve and label smoothing.
Values transformer(std::string_view heads, std::string_view width, std::string_view hidden,
                   std::string_view dropout) {
  return {{"model.name", "transformer"},    {"model.layers", "6"},          {"model.heads", heads},
          {"model.width", width},           {"model.feed_forward", hidden}, {"model.dropout", dropout},
          {"model.context", "256"},         {"data.name", "pairs"},         {"train.batch", "1"},
          {"train.label_smoothing", "0.1"}, {"optimizer.beta2", "0.98"},    {"optimizer.eps", "1e-9"},
          {"optimizer.weight_decay", "0"},  {"rate.curve", "inverse-sqrt"}};
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all{
      {"none", {}},
      {"gpt2", gpt2("12", "12", "768")},
      {"gpt2-medium", gpt2("24", "16", "1024")},
      {"gpt2-large", gpt2("36", "20", "1280")},
      {"gpt2-xl", gpt2("48", "25", "1600")},
      {"gpt2-published", published_gpt2("12", "12", "768")},
      {"transformer-base", transformer("8", "512", "2048", "0.1")},
      {"transformer-big", transformer("16", "1024", "4096", "0.3")},
  };
  return all;
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets())
    names.emplace_back(preset.name);
  return names;
}

std::span<const PresetValue> preset_values(std::string_view name) {
  const auto found = std::ranges::find(presets(), name, &Preset::name);
  KITH_CHECK(found != presets().end(), "a preset that there is");
  return found->values;
}

}  // namespace kith::train

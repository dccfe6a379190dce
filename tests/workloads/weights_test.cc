#include "kith/train/weights.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/train/data/file.h"
#include "kith/train/models/gpt.h"
#include "kith/train/models/model.h"
#include "kith/train/safetensors.h"
#include "tests/support/failure.h"
#include "tests/workloads/tensor_file.h"

namespace kith::train {
namespace {

using support::failure_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr GptOptions kSmall{
    .layers = 2, .heads = 2, .width = 8, .context = 6, .vocabulary = 20, .tanh_gelu = true};

std::map<std::string, torch::Tensor> drawn_gpt2(std::int64_t vocabulary, const std::string& prefix) {
  torch::manual_seed(3);
  std::map<std::string, torch::Tensor> tensors{{"wte.weight", torch::randn({vocabulary, 8})},
                                               {"wpe.weight", torch::randn({6, 8})},
                                               {"ln_f.weight", torch::randn({8})},
                                               {"ln_f.bias", torch::randn({8})}};
  for (const std::string block : {"h.0.", "h.1."}) {
    for (const std::string norm : {"ln_1", "ln_2"}) {
      tensors[block + norm + ".weight"] = torch::randn({8});
      tensors[block + norm + ".bias"] = torch::randn({8});
    }
    // Inputs first: Hugging Face's Conv1D.
    const std::map<std::string, std::pair<std::int64_t, std::int64_t>> layers{
        {"attn.c_attn", {8, 24}}, {"attn.c_proj", {8, 8}}, {"mlp.c_fc", {8, 32}}, {"mlp.c_proj", {32, 8}}};
    for (const auto& [name, sizes] : layers) {
      tensors[block + name + ".weight"] = torch::randn({sizes.first, sizes.second});
      tensors[block + name + ".bias"] = torch::randn({sizes.second});
    }
    tensors[block + "attn.bias"] = torch::ones({1, 1, 6, 6});  // the mask that such files carry
  }
  std::map<std::string, torch::Tensor> prefixed;
  for (const auto& [name, tensor] : tensors)
    prefixed[prefix + name] = tensor;
  return prefixed;
}

TEST(Weights, OfGpt2sLayoutAreReadWithAndWithoutPrefix) {
  const TempFolder folder("kith-weights");
  const std::filesystem::path path = folder.path();
  for (const std::string prefix : {"", "transformer."}) {
    const auto tensors = drawn_gpt2(20, prefix);
    const auto model = make_gpt(kSmall);
    load_weights(*model, testing::write_tensors(path / "gpt2.safetensors", tensors));
    const auto parameters = model->named_parameters();
    EXPECT_TRUE(parameters["table.weight"].equal(tensors.at(prefix + "wte.weight")));
    EXPECT_TRUE(parameters["block1.widen.weight"].equal(tensors.at(prefix + "h.1.mlp.c_fc.weight").t()));
    EXPECT_TRUE(parameters["block0.attention.query_key_value.bias"].equal(
        tensors.at(prefix + "h.0.attn.c_attn.bias")));
  }
}

TEST(Weights, APaddedTableKeepsItsDrawnRows) {
  const TempFolder folder("kith-weights");
  const std::filesystem::path path = folder.path();
  const auto tensors = drawn_gpt2(17, "");
  const auto model = make_gpt(kSmall);
  const torch::Tensor before = model->named_parameters()["table.weight"].detach().clone();
  load_weights(*model, testing::write_tensors(path / "gpt2.safetensors", tensors));
  const torch::Tensor table = model->named_parameters()["table.weight"];
  EXPECT_TRUE(table.slice(0, 0, 17).equal(tensors.at("wte.weight")));
  EXPECT_TRUE(table.slice(0, 17).equal(before.slice(0, 17)));
}

TEST(Weights, WhatIsWrittenInGpt2sLayoutReadsBackTheSame) {
  const TempFolder folder("kith-weights");
  const std::filesystem::path file = std::filesystem::path(folder.path()) / "model.safetensors";
  for (const bool bias : {true, false}) {
    GptOptions options = kSmall;
    options.bias = bias;
    const auto model = make_gpt(options);
    write_gpt2(*model, file);
    options.bias = true;  // that layout always has them: zeros where there were none
    const auto again = make_gpt(options);
    load_weights(*again, file);
    const torch::Tensor tokens = torch::randint(20, {2, 5}, torch::kInt64);
    EXPECT_TRUE(torch::allclose(model->forward(tokens), again->forward(tokens), 1e-6, 1e-6)) << bias;
  }
  const std::vector<std::uint8_t> bytes = read_bytes(file);
  const Safetensors parsed = parse_safetensors(std::as_bytes(std::span(bytes)), "f");
  EXPECT_EQ(parsed.tensors.size(), 4u + 2 * 12);
  for (const NamedTensor& tensor : parsed.tensors)
    EXPECT_THAT(tensor.name, ::testing::StartsWith("transformer."));
}

TEST(Weights, WhatDoesNotFitIsNamed) {
  const TempFolder folder("kith-weights");
  const std::filesystem::path path = std::filesystem::path(folder.path()) / "w.safetensors";
  const auto problem = [&](std::map<std::string, torch::Tensor> tensors, const GptOptions& options = kSmall) {
    testing::write_tensors(path, tensors);
    return failure_of<InputError>([&] { load_weights(*make_gpt(options), path); });
  };
  auto tensors = drawn_gpt2(20, "");
  EXPECT_EQ(problem(tensors), "");
  tensors.erase("h.1.ln_2.bias");
  EXPECT_THAT(problem(tensors), AllOf(HasSubstr("w.safetensors"), HasSubstr("has no 'h.1.ln_2.bias'")));
  EXPECT_THAT(problem(drawn_gpt2(21, "")), HasSubstr("'table.weight' has sizes [21, 8]"));
  GptOptions deeper = kSmall;
  deeper.layers = 1;
  EXPECT_THAT(problem(drawn_gpt2(20, ""), deeper), HasSubstr("which the model does not have"));
  std::ofstream(path) << "no such thing";
  EXPECT_THAT(failure_of<InputError>([&] { load_weights(*make_gpt(kSmall), path); }),
              HasSubstr("w.safetensors"));
}

}  // namespace
}  // namespace kith::train

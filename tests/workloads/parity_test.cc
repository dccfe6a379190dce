// Forward and backward passes agree with models written with torch in Python (parity.py), with copied
// weights.

#include <cstdlib>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/train/cross_entropy.h"
#include "kith/train/data/dataset.h"
#include "kith/train/models/gpt.h"
#include "kith/train/models/model.h"
#include "kith/train/models/resnet.h"
#include "kith/train/models/transformer.h"
#include "tests/workloads/tensor_file.h"

namespace kith::train {
namespace {

constexpr std::uint64_t kSeed = 20241016;

// Norms and biases begin with ones and zeros; other numbers tell more.
void disturb(torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& parameter : model.parameters())
    parameter.add_(0.05 * torch::randn_like(parameter));
}

struct Case {
  std::string name;     // what parity.py calls the model
  std::string options;  // and what it tells it
  double smoothing = 0;
};

// The scores, the loss, every gradient and every buffer of Python's model are these, to 1e-4.
void expect_parity(Model& model, const torch::Tensor& input, const torch::Tensor& target, const Case& about) {
  const TempFolder folder("kith-parity");
  disturb(model);
  std::map<std::string, torch::Tensor> tensors{{"input", input}, {"target", target}};
  // Copies: batch norms change their buffers, and parameters lie wherever the model likes.
  for (const auto& item : model.named_parameters())
    tensors["weight." + item.key()] = item.value().detach().clone();
  for (const auto& item : model.named_buffers())
    tensors["weight." + item.key()] = item.value().clone();
  model.train();
  const torch::Tensor scores = model.forward(input);
  const torch::Tensor loss = plain_cross_entropy(scores, target, about.smoothing);
  loss.backward();
  tensors["scores"] = scores;
  tensors["loss"] = loss;
  for (const auto& item : model.named_parameters())
    tensors["gradient." + item.key()] = item.value().grad();
  for (const auto& item : model.named_buffers())
    tensors["buffer." + item.key()] = item.value();
  const std::filesystem::path path = folder.path();
  testing::write_tensors(path / "case.safetensors", tensors);
  const std::string command =
      cat(KITH_PYTHON, " ", KITH_PARITY, " ", about.name, " ", (path / "case.safetensors").string(), " ",
          about.smoothing, " ", about.options, " > ", (path / "out").string(), " 2>&1");
  const int status = std::system(command.c_str());
  std::ifstream out(path / "out");
  const std::string said{std::istreambuf_iterator<char>(out), {}};
  EXPECT_EQ(status, 0) << said;
  EXPECT_NE(said.find("agree"), std::string::npos) << said;
}

TEST(Parity, GptWithBiasesAndTanh) {
  torch::manual_seed(kSeed);
  const auto model =
      make_gpt({.layers = 3, .heads = 4, .width = 32, .context = 24, .vocabulary = 128, .tanh_gelu = true});
  const torch::Tensor tokens = torch::randint(128, {3, 21}, torch::kInt64);
  expect_parity(*model, tokens.slice(1, 0, -1).contiguous(), tokens.slice(1, 1).reshape({-1}),
                {"gpt", "layers=3 heads=4 width=32 context=24 vocabulary=128 gelu=tanh bias=1"});
}

TEST(Parity, GptWithoutBiases) {
  torch::manual_seed(kSeed);
  const auto model = make_gpt({.layers = 2,
                               .heads = 2,
                               .width = 16,
                               .context = 24,
                               .vocabulary = 64,
                               .feed_forward = 40,
                               .bias = false});
  const torch::Tensor tokens = torch::randint(64, {2, 25}, torch::kInt64);
  expect_parity(*model, tokens.slice(1, 0, -1).contiguous(), tokens.slice(1, 1).reshape({-1}),
                {"gpt", "layers=2 heads=2 width=16 context=24 vocabulary=64 hidden=40 gelu=none bias=0"});
}

// In double: in float an input of a ReLU that is zero but for rounding has one sign here and another there on
// some processors, and the gradients of a batch this small then differ by a hundredth.
torch::Tensor images(at::IntArrayRef sizes) {
  return torch::randn(sizes, torch::kFloat64);
}

TEST(Parity, ResNet18WithTheSmallStem) {
  torch::manual_seed(kSeed);
  const auto model = make_resnet({.depth = 18, .channels = 3, .classes = 10, .small_stem = true});
  model->to(torch::kFloat64);
  expect_parity(*model, images({4, 3, 16, 16}), torch::randint(10, {4}, torch::kInt64),
                {"resnet", "depth=18 classes=10 channels=3 small=1", 0.1});
}

TEST(Parity, ResNet50) {
  torch::manual_seed(kSeed);
  const auto model = make_resnet({.depth = 50, .channels = 3, .classes = 12, .channels_last = false});
  model->to(torch::kFloat64);
  expect_parity(*model, images({2, 3, 64, 64}), torch::randint(12, {2}, torch::kInt64),
                {"resnet", "depth=50 classes=12 channels=3 small=0"});
}

TEST(Parity, Transformer) {
  torch::manual_seed(kSeed);
  const auto model = make_transformer({.layers = 2,
                                       .heads = 4,
                                       .width = 32,
                                       .feed_forward = 48,
                                       .vocabulary = 64,
                                       .context = 16,
                                       .dropout = 0});
  torch::Tensor pairs = torch::randint(64, {3, 2, 11}, torch::kInt64);
  torch::Tensor target = torch::randint(64, {3, 11}, torch::kInt64);
  // Padding: the second source has 6 tokens, the third target 4.
  pairs.index_put_({1, 0, torch::indexing::Slice(6)}, kNoToken);
  pairs.index_put_({2, 1, torch::indexing::Slice(4)}, kNoToken);
  target.index_put_({2, torch::indexing::Slice(4)}, kNoTarget);
  expect_parity(*model, pairs, target.reshape({-1}),
                {"transformer", "layers=2 heads=4 width=32 hidden=48 vocabulary=64", 0.1});
}

TEST(ResNet, HasTheParametersOfTorchvisions) {
  EXPECT_EQ(parameter_count(*make_resnet({.depth = 18})), 11'689'512);
  EXPECT_EQ(parameter_count(*make_resnet({.depth = 50})), 25'557'032);
}

TEST(ResNet, ChannelsLastChangesNoNumberMuch) {
  const torch::Tensor images = torch::randn({2, 1, 28, 28});
  std::vector<torch::Tensor> scores;
  for (const bool last : {false, true}) {
    torch::manual_seed(kSeed);
    const auto model =
        make_resnet({.depth = 18, .channels = 1, .classes = 10, .small_stem = true, .channels_last = last});
    scores.push_back(model->forward(images));
  }
  EXPECT_TRUE(torch::allclose(scores[0], scores[1], 1e-4, 1e-4));
}

}  // namespace
}  // namespace kith::train

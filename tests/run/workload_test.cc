// What is trained, and on what: presets, sizes, crops, names of published weights.

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/config/model_size.h"
#include "kith/train/config/preset.h"
#include "kith/train/config/read.h"
#include "kith/train/data/augment.h"
#include "kith/train/models/gpt2_layout.h"
#include "tests/run/support.h"

namespace kith::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Job job_with(const std::vector<std::string>& texts) {
  std::vector<Setting> settings;
  for (const std::string& text : texts)
    settings.push_back({text, "--set"});
  return read_job({.file = {}, .settings = settings}).job;
}

TEST(Preset, FillsInWhatNobodySet) {
  const Job job = job_with({"model.preset=gpt2", "data.path=/d", "model.layers=2"});
  EXPECT_EQ(job.model.layers, 2) << "what is set counts";
  EXPECT_EQ(job.model.width, 768);
  EXPECT_EQ(job.model.context, 1024);
  EXPECT_EQ(job.model.vocabulary, 50304);
  EXPECT_FALSE(job.model.bias);
  EXPECT_EQ(job.data.name, "tokens");
  EXPECT_EQ(job.train.batch, Job().train.batch);
}

TEST(Preset, HaveTheParametersOfTheirPapers) {
  const auto millions = [](const std::string& preset, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"model.preset=" + preset, "data.path=/d"});
    return parameters_of(job_with(more)) / 1e6;
  };
  EXPECT_NEAR(millions("gpt2-published"), 124.439808, 1e-9);
  EXPECT_NEAR(millions("gpt2"), 124.373760, 1e-9);  // 47 rows more, no biases
  EXPECT_NEAR(millions("gpt2-medium"), 354, 1);
  EXPECT_NEAR(millions("gpt2-large"), 774, 1);
  EXPECT_NEAR(millions("gpt2-xl"), 1557, 2);
  EXPECT_NEAR(millions("transformer-base", {"model.vocabulary=37000"}), 63.1, 0.1);  // "65 x 10^6"
  EXPECT_NEAR(millions("transformer-big", {"model.vocabulary=37000"}), 214.2, 0.2);  // "213 x 10^6"
  for (const std::string& name : preset_names())
    EXPECT_EQ(job_with({"model.preset=" + name, "data.path=/d"}).model.preset, name);
}

TEST(ModelSize, OfResNetsIsTorchvisions) {
  const auto parameters = [](const std::string& name, const std::string& classes) {
    return parameters_of(
        job_with({"model.name=" + name, "data.name=images", "data.path=/d", "model.classes=" + classes}));
  };
  EXPECT_EQ(parameters("resnet18", "1000"), 11'689'512);
  EXPECT_EQ(parameters("resnet50", "1000"), 25'557'032);
}

TEST(Workload, ModelsAndDataMustFit) {
  const auto problem = [](const std::vector<std::string>& settings) {
    return failure_of<InputError>([&] { job_with(settings); });
  };
  EXPECT_THAT(problem({"model.name=resnet18"}), AllOf(HasSubstr("data.name"), HasSubstr("\"cifar10\"")));
  EXPECT_THAT(problem({"model.name=transformer"}), HasSubstr("data.name = \"pairs\""));
  EXPECT_THAT(problem({"data.name=tokens"}), AllOf(HasSubstr("data.path"), HasSubstr("needs a folder")));
  EXPECT_THAT(problem({"model.vocabulary=100"}),
              AllOf(HasSubstr("model.vocabulary"), HasSubstr("at least 256")));
  EXPECT_THAT(problem({"model.name=resnet18", "data.name=cifar10", "data.path=/d", "model.classes=9"}),
              AllOf(HasSubstr("model.classes"), HasSubstr("has 10")));
  EXPECT_THAT(problem({"model.name=resnet18", "data.name=cifar10", "data.path=/d", "model.dropout=0.5"}),
              HasSubstr("no dropout"));
  EXPECT_THAT(problem({"model.preset=gpt3"}), HasSubstr("model.preset"));
  EXPECT_EQ(problem({"model.name=resnet50", "data.name=fashion-mnist", "model.stem=small"}), "");
}

TEST(Crops, LieWithinTheImageAndAreRepeatable) {
  std::set<std::int64_t> widths;
  int mirrored = 0, whole = 0;
  for (std::uint64_t sample = 0; sample < 500; ++sample) {
    const Draw draw{1, 2, sample};
    const Crop crop = random_crop(640, 480, draw);
    EXPECT_GE(crop.left, 0);
    EXPECT_GE(crop.top, 0);
    EXPECT_LE(crop.left + crop.width, 640);
    EXPECT_LE(crop.top + crop.height, 480);
    const double share = static_cast<double>(crop.width * crop.height) / (640 * 480);
    EXPECT_GT(share, 0.078);
    const double sides = static_cast<double>(crop.width) / static_cast<double>(crop.height);
    EXPECT_GT(sides, 0.73);
    EXPECT_LT(sides, 1.36);
    widths.insert(crop.width);
    mirrored += crop.mirrored ? 1 : 0;
    whole += share > 0.9 ? 1 : 0;
    const Crop again = random_crop(640, 480, draw);
    EXPECT_EQ(again.left, crop.left);
    EXPECT_EQ(again.mirrored, crop.mirrored);
  }
  EXPECT_GT(widths.size(), 100u);
  EXPECT_NEAR(mirrored, 250, 45);  // binomial: deviation 11
  EXPECT_GT(whole, 5);
  const Crop narrow = random_crop(1000, 3, {1, 1, 1});
  EXPECT_LE(narrow.left + narrow.width, 1000);
  EXPECT_GE(narrow.height, 1);
  const Crop middle = middle_crop(512, 256);
  EXPECT_EQ(middle.width, 224);
  EXPECT_EQ(middle.left, 144);
  EXPECT_EQ(middle.top, 16);
}

TEST(Crops, MoveByAtMostTheirMargin) {
  std::set<std::pair<std::int64_t, std::int64_t>> places;
  for (std::uint64_t sample = 0; sample < 2000; ++sample) {
    const Crop crop = moved_crop(32, 32, 4, {7, 0, sample});
    EXPECT_EQ(crop.width, 32);
    EXPECT_LE(std::abs(crop.left), 4);
    EXPECT_LE(std::abs(crop.top), 4);
    places.insert({crop.left, crop.top});
  }
  EXPECT_EQ(places.size(), 81u);
}

TEST(Gpt2Layout, KnowsEveryName) {
  EXPECT_EQ(gpt2_name("table.weight").name, "wte.weight");
  EXPECT_EQ(gpt2_name("norm.bias").name, "ln_f.bias");
  EXPECT_EQ(gpt2_name("block11.attention.query_key_value.weight").name, "h.11.attn.c_attn.weight");
  EXPECT_TRUE(gpt2_name("block11.attention.query_key_value.weight").turned);
  EXPECT_FALSE(gpt2_name("block11.attention.query_key_value.bias").turned);
  EXPECT_EQ(gpt2_name("block0.narrow.bias").name, "h.0.mlp.c_proj.bias");
  EXPECT_EQ(gpt2_name("layer1.0.conv1.weight").name, "");
  EXPECT_EQ(without_gpt2_prefix("transformer.wte.weight"), "wte.weight");
  EXPECT_TRUE(is_gpt2_extra("h.3.attn.bias"));
  EXPECT_FALSE(is_gpt2_extra("h.3.attn.c_attn.bias"));
}

}  // namespace
}  // namespace kith::train

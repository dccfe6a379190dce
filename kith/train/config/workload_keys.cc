#include "kith/train/config/workload_keys.h"

#include <array>

#include "kith/train/config/preset.h"

namespace kith::train {
namespace {

using Names = std::vector<std::string>;

const std::array kModelKeys{
    Key{.name = "model.preset",
        .field = [](Job& j) -> Field { return &j.model.preset; },
        .doc = "Published sizes: what the preset names counts where the job sets nothing of its own.",
        .choices = preset_names},
    Key{.name = "model.name",
        .field = [](Job& j) -> Field { return &j.model.name; },
        .doc = "gpt continues text; transformer translates; cnn, mlp, resnet18 and resnet50 read images.",
        .choices = [] { return Names{"gpt", "transformer", "cnn", "mlp", "resnet18", "resnet50"}; }},
    Key{.name = "model.layers",
        .field = [](Job& j) -> Field { return &j.model.layers; },
        .doc = "gpt: transformer blocks. transformer: blocks of the encoder, and of the decoder. mlp: hidden "
               "layers.",
        .interval = "[1, 200]"},
    Key{.name = "model.heads",
        .field = [](Job& j) -> Field { return &j.model.heads; },
        .doc = "gpt, transformer: attention heads; they divide the width.",
        .interval = "[1, 256]"},
    Key{.name = "model.width",
        .field = [](Job& j) -> Field { return &j.model.width; },
        .doc = "gpt, transformer, mlp: size of a hidden vector. cnn: channels of the second convolution.",
        .interval = "[1, 65536]"},
    Key{.name = "model.feed_forward",
        .field = [](Job& j) -> Field { return &j.model.feed_forward; },
        .doc = "gpt, transformer: size of the hidden layer in a block; 0 for four times the width.",
        .interval = "[0, 262144]"},
    Key{.name = "model.context",
        .field = [](Job& j) -> Field { return &j.model.context; },
        .doc = "gpt: tokens it looks back. transformer: most tokens of a sentence.",
        .interval = "[1, 65536]"},
    Key{.name = "model.vocabulary",
        .field = [](Job& j) -> Field { return &j.model.vocabulary; },
        .doc = "gpt, transformer: tokens it knows. Bytes are 256; a multiple of 64 is fastest on GPUs.",
        .interval = "[2, 1000000]"},
    Key{.name = "model.bias",
        .field = [](Job& j) -> Field { return &j.model.bias; },
        .doc = "gpt: linear layers and norms have biases."},
    Key{.name = "model.gelu",
        .field = [](Job& j) -> Field { return &j.model.gelu; },
        .doc = "gpt: the GELU itself, or its approximation by tanh, which the published weights were "
               "trained with.",
        .choices =
            [] {
              return Names{"exact", "tanh"};
            }},
    Key{.name = "model.dropout",
        .field = [](Job& j) -> Field { return &j.model.dropout; },
        .doc = "gpt, transformer: share of activations dropped in training. Above 0 the workers must be "
               "processes.",
        .interval = "[0, 1)"},
    Key{.name = "model.classes",
        .field = [](Job& j) -> Field { return &j.model.classes; },
        .doc = "resnet18, resnet50: classes of the data.",
        .interval = "[2, 1000000]"},
    Key{.name = "model.stem",
        .field = [](Job& j) -> Field { return &j.model.stem; },
        .doc = "resnet18, resnet50: large begins with a 7x7 convolution of stride 2 and a pooling, for "
               "images of about 224; small with one of 3x3, for images of about 32.",
        .choices =
            [] {
              return Names{"large", "small"};
            }},
    Key{.name = "model.channels_last",
        .field = [](Job& j) -> Field { return &j.model.channels_last; },
        .doc = "resnet18, resnet50: images and weights lie channel by channel within a pixel, which is "
               "faster."},
    Key{.name = "model.weights",
        .field = [](Job& j) -> Field { return &j.model.weights; },
        .doc = "A safetensors file to begin with: the model of another run, or for gpt one in Hugging "
               "Face's layout of GPT-2; empty to draw.",
        .text = TextKind::path},
    Key{.name = "model.buffers",
        .field = [](Job& j) -> Field { return &j.model.buffers; },
        .doc = "Batch-norm statistics in evaluation: each worker's own, or averaged over the workers.",
        .choices =
            [] {
              return Names{"local", "averaged"};
            }},
};

const std::array kDataKeys{
    Key{.name = "data.name",
        .field = [](Job& j) -> Field { return &j.data.name; },
        .doc = "text or tokens for gpt, pairs for transformer, mnist or fashion-mnist for cnn and mlp, "
               "these, cifar10 or images for resnet18 and resnet50.",
        .choices =
            [] { return Names{"text", "tokens", "pairs", "mnist", "fashion-mnist", "cifar10", "images"}; }},
    Key{.name = "data.path",
        .field = [](Job& j) -> Field { return &j.data.path; },
        .doc = "A text file, or the folder of a data set's files; empty for the shipped text, or for where "
               "`kith data` puts mnist and fashion-mnist.",
        .text = TextKind::path},
    Key{.name = "data.validation",
        .field = [](Job& j) -> Field { return &j.data.validation; },
        .doc = "text: share of the file, from its end, that is kept for validation.",
        .interval = "(0, 0.9]"},
    Key{.name = "data.augment",
        .field = [](Job& j) -> Field { return &j.data.augment; },
        .doc = "crop-flip: training images are cropped at random and mirrored half of the time.",
        .choices =
            [] {
              return Names{"none", "crop-flip"};
            }},
    Key{.name = "data.image_size",
        .field = [](Job& j) -> Field { return &j.data.image_size; },
        .doc = "images: height and width that every image is cut and scaled to.",
        .interval = "[8, 4096]"},
    Key{.name = "data.threads",
        .field = [](Job& j) -> Field { return &j.data.threads; },
        .doc = "images: threads of each worker that read and decode files.",
        .interval = "[1, 256]",
        .free_on_resume = true},
    Key{.name = "data.batch_tokens",
        .field = [](Job& j) -> Field { return &j.data.batch_tokens; },
        .doc = "pairs: most tokens of a batch on either side, with padding; sentences of about the same "
               "length share a batch.",
        .interval = "[1, 100000000]"},
};

}  // namespace

std::span<const Key> model_keys() {
  return kModelKeys;
}

std::span<const Key> data_keys() {
  return kDataKeys;
}

}  // namespace kith::train

#include "kith/train/config/model_size.h"

#include <algorithm>
#include <array>

namespace kith::train {
namespace {

constexpr double kPixels = 28 * 28;
constexpr double kDigits = 10;

double linear(double from, double to, bool bias = true) {
  return from * to + (bias ? to : 0);
}

double width_of(const Job& job) {
  return static_cast<double>(job.model.width);
}

double gpt_parameters(const Job& job) {
  const double width = width_of(job), hidden = static_cast<double>(hidden_width(job));
  const bool bias = job.model.bias;
  const double norm = bias ? 2 * width : width;
  const double block = 2 * norm + linear(width, 3 * width, bias) + linear(width, width, bias) +
                       linear(width, hidden, bias) + linear(hidden, width, bias);
  return static_cast<double>(job.model.vocabulary + job.model.context) * width + norm +
         static_cast<double>(job.model.layers) * block;
}

double transformer_parameters(const Job& job) {
  const double width = width_of(job), hidden = static_cast<double>(hidden_width(job));
  const double norm = 2 * width, attention = 4 * linear(width, width);
  const double last = linear(width, hidden) + linear(hidden, width) + norm;
  const double encoder = attention + norm + last, decoder = 2 * (attention + norm) + last;
  return static_cast<double>(job.model.vocabulary) * width +
         static_cast<double>(job.model.layers) * (encoder + decoder);
}

double mlp_parameters(const Job& job) {
  const double width = width_of(job);
  return linear(kPixels, width) + static_cast<double>(job.model.layers - 1) * linear(width, width) +
         linear(width, kDigits);
}

double cnn_parameters(const Job& job) {
  const double width = width_of(job);
  const auto first = static_cast<double>(std::max<std::int64_t>(1, job.model.width / 2));
  return 9 * first + 2 * first + 9 * first * width + 2 * width + linear(49 * width, 128) +
         linear(128, kDigits);
}

double convolution(double from, double to, double side) {
  return from * to * side * side + 2 * to;  // and its norm
}

double resnet_parameters(const Job& job) {
  const bool deep = job.model.name == "resnet50";
  const std::array<int, 4> blocks = deep ? std::array{3, 4, 6, 3} : std::array{2, 2, 2, 2};
  double count = convolution(static_cast<double>(image_channels(job)), 64, job.model.stem == "small" ? 3 : 7);
  double from = 64, inner = 64;
  for (const int times : blocks) {
    const double to = deep ? 4 * inner : inner;
    for (int i = 0; i < times; ++i) {
      count += deep ? convolution(from, inner, 1) + convolution(inner, inner, 3) + convolution(inner, to, 1)
                    : convolution(from, inner, 3) + convolution(inner, inner, 3);
      if (from != to || (i == 0 && inner > 64)) count += convolution(from, to, 1);
      from = to;
    }
    inner *= 2;
  }
  return count + linear(from, static_cast<double>(job.model.classes));
}

// Counted with torch at 224: each convolution's and each norm's output.
double resnet_activations(const Job& job) {
  const double at_224 = job.model.name == "resnet50" ? 22.2e6 : 5.0e6;
  double side = 28;
  if (job.data.name == "cifar10") side = 32;
  if (job.data.name == "images") side = static_cast<double>(job.data.image_size);
  const double pixels = side * side / (224.0 * 224);
  return at_224 * pixels * (job.model.stem == "small" ? 16 : 1);
}

}  // namespace

double parameters_of(const Job& job) {
  if (job.model.name == "gpt") return gpt_parameters(job);
  if (job.model.name == "transformer") return transformer_parameters(job);
  if (job.model.name == "mlp") return mlp_parameters(job);
  return job.model.name == "cnn" ? cnn_parameters(job) : resnet_parameters(job);
}

double activations_of(const Job& job) {
  const double width = width_of(job);
  const auto layers = static_cast<double>(job.model.layers);
  const auto vocabulary = static_cast<double>(job.model.vocabulary);
  if (job.model.name == "mlp") return 2 * layers * width;
  if (job.model.name == "cnn") return kPixels * width / 2 + kPixels / 4 * width;
  // A block keeps the inputs of its norms, its four products and the GELU. A decoder's has more, and there is
  // an encoder's beside it.
  if (job.model.name == "gpt")
    return static_cast<double>(job.model.context) * (16 * layers * width + 2 * vocabulary);
  if (job.model.name == "transformer")
    return static_cast<double>(job.data.batch_tokens) * (40 * layers * width + 2 * vocabulary);
  return resnet_activations(job);
}

}  // namespace kith::train

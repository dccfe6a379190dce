#include "kith/train/config/footprint.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

constexpr double kFloat = 4;         // parameters and their gradients are fp32
constexpr double kVocabulary = 256;  // bytes
constexpr double kPixels = 28 * 28;
constexpr double kDigits = 10;

double linear(double from, double to) {
  return from * to + to;
}

double gpt_parameters(const Job& job) {
  const auto width = static_cast<double>(job.model.width);
  const double norm = 2 * width;
  const double block = 2 * norm + linear(width, 3 * width) + linear(width, width) + linear(width, 4 * width) +
                       linear(4 * width, width);
  return (kVocabulary + static_cast<double>(job.model.context)) * width + norm +
         static_cast<double>(job.model.layers) * block;
}

double mlp_parameters(const Job& job) {
  const auto width = static_cast<double>(job.model.width);
  return linear(kPixels, width) + static_cast<double>(job.model.layers - 1) * linear(width, width) +
         linear(width, kDigits);
}

double cnn_parameters(const Job& job) {
  const auto width = static_cast<double>(job.model.width);
  const auto first = static_cast<double>(std::max<std::int64_t>(1, job.model.width / 2));
  return 9 * first + 2 * first + 9 * first * width + 2 * width + linear(49 * width, 128) +
         linear(128, kDigits);
}

double parameters_of(const Job& job) {
  if (job.model.name == "gpt") return gpt_parameters(job);
  return job.model.name == "mlp" ? mlp_parameters(job) : cnn_parameters(job);
}

// Floats per sample.
double activations_of(const Job& job) {
  const auto width = static_cast<double>(job.model.width);
  const auto layers = static_cast<double>(job.model.layers);
  if (job.model.name == "mlp") return 2 * layers * width;
  if (job.model.name == "cnn") return kPixels * width / 2 + kPixels / 4 * width;
  // A block keeps the inputs of its norms, its four products and the GELU.
  return static_cast<double>(job.model.context) * (16 * layers * width + 2 * kVocabulary);
}

double states_of(const Job& job) {
  if (job.optimizer.name == "sgd") return job.optimizer.momentum > 0 ? 1 : 0;
  return job.optimizer.name.starts_with("accum-") ? 3 : 2;
}

}  // namespace

Footprint footprint_of(const Job& job) {
  const double parameters = parameters_of(job);
  return {.parameters = parameters,
          .model = 2 * kFloat * parameters,
          .gradient = kFloat * parameters,
          .optimizer = states_of(job) * kFloat * parameters,
          .activations = kFloat * static_cast<double>(job.train.batch) * activations_of(job)};
}

double memory_here() {
  double bytes =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    double limit = 0;
    if (std::ifstream(file) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

void check_fits(const Job& job, int workers, double bytes) {
  const Footprint one = footprint_of(job);
  if (one.total() * workers <= bytes) return;
  throw InputError(
      cat("a model of ", std::llround(one.parameters / 1e6), " million parameters needs ",
          human_bytes(one.total()), " per worker (model ", human_bytes(one.model), ", gradient ",
          human_bytes(one.gradient), ", optimizer ", human_bytes(one.optimizer), ", activations ",
          human_bytes(one.activations), "), ", human_bytes(one.total() * workers), " for the ", workers,
          " here, and this machine has ", human_bytes(bytes)),
      one.activations > one.total() / 2 ? "train.batch" : "model.width",
      "a smaller width, fewer layers, a smaller batch, or fewer workers");
}

}  // namespace kith::train

#include "kith/train/config/footprint.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/config/model_size.h"

namespace kith::train {
namespace {

constexpr double kFloat = 4;  // parameters and their gradients are fp32

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

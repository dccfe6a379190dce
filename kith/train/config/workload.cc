#include "kith/train/config/workload.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

bool is_resnet(const Job& job) {
  return job.model.name.starts_with("resnet");
}

// What the model reads; the usual first.
std::vector<std::string> data_of(const Job& job) {
  if (job.model.name == "gpt") return {"text", "tokens"};
  if (job.model.name == "transformer") return {"pairs"};
  if (is_resnet(job)) return {"cifar10", "images", "fashion-mnist", "mnist"};
  return {"mnist", "fashion-mnist"};
}

void check_data_fits(const Job& job, const Origins& origins) {
  const std::vector<std::string> wanted = data_of(job);
  if (std::ranges::find(wanted, job.data.name) == wanted.end()) {
    throw InputError(cat("'", job.data.name, "' is not what model.name = \"", job.model.name, "\" reads"),
                     place_of(origins, "data.name"), cat("data.name = \"", join(wanted, "\", or \""), "\""));
  }
  if ((job.data.name == "tokens" || job.data.name == "pairs" || job.data.name == "cifar10" ||
       job.data.name == "images") &&
      job.data.path.empty()) {
    throw InputError(cat("data.name = \"", job.data.name, "\" needs a folder"),
                     place_of(origins, "data.path"), "name it; docs/workloads.md says how each is made");
  }
  if (job.data.name == "text" && job.model.vocabulary < 256) {
    throw InputError(cat("a vocabulary of ", job.model.vocabulary, " does not hold every byte"),
                     place_of(origins, "model.vocabulary"), "at least 256");
  }
  if (is_resnet(job) && job.data.name != "images" && job.model.classes < 10) {
    throw InputError(cat(job.model.classes, " classes, and ", job.data.name, " has 10"),
                     place_of(origins, "model.classes"), "10");
  }
}

void check_dropout(const Job& job, const Origins& origins) {
  if (job.model.dropout == 0) return;
  if (job.model.name != "gpt" && job.model.name != "transformer") {
    throw InputError(cat("model '", job.model.name, "' has no dropout"), place_of(origins, "model.dropout"),
                     "leave it at 0");
  }
  if (job.world.backend == "inproc" && job.world.workers > 1) {
    throw InputError(
        "dropout draws from the one random generator of the process, so threads would disturb each "
        "other's numbers and no run could be repeated",
        place_of(origins, "model.dropout"),
        "train with processes (backend shm, no --threads), or set it to 0");
  }
}

}  // namespace

void check_workload(const Job& job, const Origins& origins) {
  const bool has_heads = job.model.name == "gpt" || job.model.name == "transformer";
  if (has_heads && job.model.width % job.model.heads != 0) {
    throw InputError(cat(job.model.heads, " heads do not divide a width of ", job.model.width),
                     place_of(origins, "model.heads"), "choose a divisor of model.width");
  }
  check_data_fits(job, origins);
  check_dropout(job, origins);
}

std::int64_t image_channels(const Job& job) {
  return job.data.name == "mnist" || job.data.name == "fashion-mnist" ? 1 : 3;
}

std::int64_t hidden_width(const Job& job) {
  return job.model.feed_forward > 0 ? job.model.feed_forward : 4 * job.model.width;
}

}  // namespace kith::train

#include "cli/trained_run.h"

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/config/read.h"
#include "kith/train/run/run_folder.h"
#include "kith/train/weights.h"

namespace kith::cli {

std::filesystem::path sentencepiece_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "kith-sentencepiece";
}

train::Job job_of_run(const std::string& run, const std::string& model) {
  const train::RunFolder folder = train::RunFolder::open(run);
  train::Job job = train::read_job({.file = folder.config().string(), .settings = {}}).job;
  if (job.model.name != model) {
    throw InputError(cat("trained a ", job.model.name), run, cat("a run with model.name = \"", model, "\""));
  }
  job.model.weights.clear();  // the run's own replace them
  return job;
}

void load_trained(const std::string& run, train::Model& model) {
  const std::filesystem::path file = train::RunFolder::open(run).model().string() + ".safetensors";
  std::error_code problem;
  if (!std::filesystem::exists(file, problem)) {
    throw InputError("there is no model yet", file.string(),
                     cat("a run leaves it at its end: kith train --resume ", run));
  }
  train::load_weights(model, file);
  model.eval();
}

std::unique_ptr<train::Tokenizer> tokenizer_of(const train::Job& job) {
  return job.data.name == "text" ? train::byte_tokenizer()
                                 : train::folder_tokenizer(sentencepiece_program(), job.data.path);
}

}  // namespace kith::cli

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "cli/trained_run.h"
#include "cli/training.h"
#include "cli/workload_commands.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/durable_file.h"
#include "kith/train/weights.h"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

// What transformers' GPT2LMHeadModel.from_pretrained reads beside the weights.
std::string config_of(const train::Job& job) {
  const nlohmann::json config{{"architectures", {"GPT2LMHeadModel"}},
                              {"model_type", "gpt2"},
                              {"vocab_size", job.model.vocabulary},
                              {"n_positions", job.model.context},
                              {"n_ctx", job.model.context},
                              {"n_embd", job.model.width},
                              {"n_inner", train::hidden_width(job)},
                              {"n_layer", job.model.layers},
                              {"n_head", job.model.heads},
                              {"activation_function", job.model.gelu == "tanh" ? "gelu_new" : "gelu"},
                              {"layer_norm_epsilon", 1e-5},
                              {"tie_word_embeddings", true},
                              {"attn_pdrop", job.model.dropout},
                              {"embd_pdrop", job.model.dropout},
                              {"resid_pdrop", job.model.dropout}};
  return config.dump(2) + "\n";
}

void export_run(const std::string& run, const fs::path& to) {
  const train::Job job = job_of_run(run, "gpt");
  const auto model = train::make_model(job);
  load_trained(run, *model);
  std::error_code problem;
  fs::create_directories(to, problem);
  if (problem)
    throw InputError(cat("cannot be made: ", problem.message()), to.string(), "choose another --to");
  train::write_gpt2(*model, to / "model.safetensors");
  const std::string config = config_of(job);
  train::DurableFile file(to / "config.json");
  file.write(std::as_bytes(std::span(config)));
  file.commit();
  std::cout << (to / "model.safetensors").string() << "\n" << (to / "config.json").string() << "\n";
}

}  // namespace

void add_export(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", kExportSummary);
  auto run = std::make_shared<std::string>();
  auto to = std::make_shared<std::string>();
  command->add_option("run", *run, "the folder of a finished run with model.name = \"gpt\"")->required();
  command->add_option("--to", *to, "folder for model.safetensors and config.json")->required();
  command->callback([run, to] { export_run(*run, *to); });
}

}  // namespace kith::cli

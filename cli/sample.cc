#include "kith/train/models/sample.h"

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/trained_run.h"
#include "cli/training.h"
#include "cli/workload_commands.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

struct SampleFlags {
  std::string run;
  std::string prompt = "\n";
  train::SampleOptions options;
};

void sample(SampleFlags& flags) {
  const train::Job job = job_of_run(flags.run, "gpt");
  const auto tokenizer = tokenizer_of(job);
  const auto model = train::make_model(job);
  load_trained(flags.run, *model);
  const train::Tokenizer::Line prompt = tokenizer->encode_text(flags.prompt);
  if (prompt.empty()) throw InputError("is empty", "--prompt", "a text to continue");
  flags.options.context = job.model.context;
  flags.options.vocabulary = static_cast<std::int64_t>(tokenizer->vocabulary());
  train::Tokenizer::Line drawn;
  train::sample_tokens(*model, prompt, flags.options, [&](std::int64_t token) { drawn.push_back(token); });
  // All at once: a character may be several tokens.
  drawn.insert(drawn.begin(), prompt.begin(), prompt.end());
  std::cout << tokenizer->decode_text(drawn) << "\n";
}

}  // namespace

void add_sample(CLI::App& app) {
  auto flags = std::make_shared<SampleFlags>();
  CLI::App* command = app.add_subcommand("sample", kSampleSummary);
  command->add_option("run", flags->run, "the folder of a finished run with model.name = \"gpt\"")
      ->required();
  command->add_option("--prompt", flags->prompt, "what to continue (default: a newline)");
  command->add_option("--tokens", flags->options.tokens, "how many to draw")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command
      ->add_option("--temperature", flags->options.temperature,
                   "below 1: the more probable; 0: the most probable")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top", flags->options.top, "draw among as many of the most probable; 0: among all")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command->add_option("--seed", flags->options.seed, "draws other tokens")->capture_default_str();
  command->callback([flags] { sample(*flags); });
}

}  // namespace kith::cli

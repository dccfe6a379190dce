#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cli/trained_run.h"
#include "cli/training.h"
#include "cli/workload_commands.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/bleu.h"
#include "kith/train/data/file.h"
#include "kith/train/data/token_meta.h"
#include "kith/train/models/beam_search.h"

namespace kith::cli {
namespace {

struct TranslateFlags {
  std::string run;
  std::string file;
  std::string reference;
  train::BeamOptions beam;
};

constexpr std::int64_t kLongerThanSource = 50;  // tokens, as in the paper of the model

std::vector<std::string> lines_of_file(const std::string& file) {
  if (file.empty()) {
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    return train::lines_of(text);
  }
  const std::vector<std::uint8_t> bytes = train::read_bytes(file);
  return train::lines_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void translate(const TranslateFlags& flags) {
  const train::Job job = job_of_run(flags.run, "transformer");
  const auto meta = train::read_token_meta(job.data.path);
  const auto tokenizer = tokenizer_of(job);
  const std::vector<std::string> lines = lines_of_file(flags.file);
  const std::vector<std::string> references =
      flags.reference.empty() ? std::vector<std::string>() : lines_of_file(flags.reference);
  if (!flags.reference.empty() && references.size() != lines.size()) {
    throw InputError(cat("has ", references.size(), " lines, and there are ", lines.size(), " to translate"),
                     flags.reference, "as many lines in both");
  }
  const auto model = train::make_translator(job);
  load_trained(flags.run, *model);
  std::vector<train::Tokenizer::Line> translated;
  const std::vector<train::Tokenizer::Line> sources = tokenizer->encode(lines);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    train::Tokenizer::Line source = sources[i];
    if (static_cast<std::int64_t>(source.size()) >= job.model.context) {
      throw InputError(
          cat("line ", i + 1, " has ", source.size(), " tokens, and model.context is ", job.model.context),
          flags.file.empty() ? "standard input" : flags.file, "cut it into sentences");
    }
    train::BeamOptions beam = flags.beam;
    beam.begin = meta->begin;
    beam.end = meta->end;
    beam.vocabulary = static_cast<std::int64_t>(meta->vocabulary);
    beam.longest =
        std::min(static_cast<std::int64_t>(source.size()) + kLongerThanSource, job.model.context - 1);
    source.push_back(meta->end);
    translated.push_back(train::translate(*model, {source}, beam).front());
  }
  const std::vector<std::string> texts = tokenizer->decode(translated);
  for (const std::string& text : texts)
    std::cout << text << "\n";
  if (!flags.reference.empty()) std::cerr << train::bleu_text(train::bleu(texts, references)) << "\n";
}

}  // namespace

void add_translate(CLI::App& app) {
  auto flags = std::make_shared<TranslateFlags>();
  CLI::App* command = app.add_subcommand("translate", kTranslateSummary);
  command->add_option("run", flags->run, "the folder of a finished run with model.name = \"transformer\"")
      ->required();
  command->add_option("file", flags->file, "a sentence a line (default: standard input)");
  command->add_option("--reference", flags->reference,
                      "a file of right translations: prints BLEU on standard error");
  command->add_option("--beam", flags->beam.beam, "translations that are followed at a time")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--length-penalty", flags->beam.length_penalty, "above 0: for longer ones")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  command->callback([flags] { translate(*flags); });
}

}  // namespace kith::cli

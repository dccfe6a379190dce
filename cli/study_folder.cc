#include "cli/study_folder.h"

#include <fstream>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/study/pictures.h"
#include "kith/train/study/report.h"

namespace kith::cli {
namespace {

namespace study = train::study;

// Whole, or as it was.
void replace_file(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path aside = file.string() + ".new";
  std::ofstream out(aside, std::ios::binary);
  out << text;
  if (!out.flush()) throw Error("cannot be written", file.string());
  out.close();
  std::filesystem::rename(aside, file);
}

std::vector<std::string> words_for(const study::Design& design, const study::Run& run,
                                   const std::filesystem::path& folder) {
  std::vector<std::string> words{"train"};
  if (!design.job.empty()) words.push_back(design.job);
  words.insert(words.end(), {"--out", folder.string()});
  for (const train::Setting& setting : run.settings)
    words.insert(words.end(), {"--set", setting.text});
  return words;
}

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=,+-/:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word)
    out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace

StudyFolder::StudyFolder(const std::filesystem::path& path)
    : path_(std::filesystem::absolute(path).lexically_normal()) {}

void StudyFolder::take() {
  std::error_code problem;
  std::filesystem::create_directories(path_ / "runs", problem);
  if (problem) throw InputError(cat("cannot be made: ", problem.message()), path_.string(), "use --out");
  lock_.emplace(path_);
}

std::filesystem::path StudyFolder::output(const study::Run& run) const {
  return this->run(run).string() + ".log";
}

study::Results StudyFolder::read(const study::Design& design, const std::vector<study::Cell>& cells) const {
  study::Results results;
  for (std::size_t before = 1; before != 0;) {  // what is chosen says which runs there are to look for
    before = 0;
    for (const study::Run& wanted : study::wanted_runs(design, cells, results)) {
      if (results.contains(wanted.name) || study::left_of(run(wanted)) != study::Left::all) continue;
      results[wanted.name] = study::read_result(run(wanted));
      ++before;
    }
  }
  return results;
}

std::vector<std::string> StudyFolder::prepare(const study::Design& design, const study::Run& run) const {
  const std::filesystem::path folder = this->run(run);
  if (study::left_of(folder) == study::Left::part) return {"train", "--resume", folder.string()};
  clear(run);
  return words_for(design, run, folder);
}

void StudyFolder::clear(const study::Run& run) const {
  std::filesystem::remove_all(this->run(run));
  std::filesystem::create_directories(this->run(run).parent_path());
}

void StudyFolder::drop_models(const study::Run& run) const {
  std::error_code ignored;
  for (const char* name : {"checkpoints", "model.pt", "model-state.pt", "model.safetensors"})
    std::filesystem::remove_all(this->run(run) / name, ignored);
}

void StudyFolder::write_report(const study::Design& design, const std::vector<study::Cell>& cells,
                               const study::Results& results) const {
  const study::Report report = study::report_on(design, cells, results);
  const std::vector<study::Run> wanted = study::wanted_runs(design, cells, results);
  std::vector<std::string> commands;
  std::string lines;
  for (const study::Run& run : wanted) {
    commands.push_back(command_text(design, run, this->run(run)));
    lines += commands.back() + "\n";
  }
  replace_file(path_ / "study.json", study::report_json(design, report, wanted, commands, results));
  replace_file(path_ / "commands.txt", lines);
  replace_file(path_ / "table.txt", study::table_text(report));
  replace_file(path_ / "lengths.svg", study::lengths_svg(report));
  const std::string tuning = study::tuning_svg(report);
  if (!tuning.empty()) replace_file(path_ / "tuning.svg", tuning);
}

std::string command_text(const study::Design& design, const study::Run& run,
                         const std::filesystem::path& folder) {
  std::string text = "kith";
  for (const std::string& word : words_for(design, run, folder))
    text += cat(" ", quoted(word));
  return text;
}

}  // namespace kith::cli

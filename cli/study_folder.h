#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kith/train/run/run_lock.h"
#include "kith/train/study/results.h"

namespace kith::cli {

// What a study leaves behind:
//   runs/METHOD/...    a run folder each, without checkpoints and model once the run is finished
//   runs/METHOD/....log    what the run printed
//   study.json         everything: the table, and each run's command and result
//   table.txt, lengths.svg, tuning.svg
//   commands.txt       each run's command, one per line
//   log.txt            when what was started and how it ended
// One process at a time works in it; anybody may look.
class StudyFolder {
 public:
  explicit StudyFolder(const std::filesystem::path& path);

  // Makes the folder where it is not there yet, and holds it from now on. InputError names who does already.
  void take();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path run(const train::study::Run& run) const { return path_ / "runs" / run.name; }
  std::filesystem::path log() const { return path_ / "log.txt"; }
  std::filesystem::path output(const train::study::Run& run) const;

  // The runs that are finished, of those wanted; more are wanted once they are known.
  train::study::Results read(const train::study::Design& design,
                             const std::vector<train::study::Cell>& cells) const;

  // The words after the program's name: the run anew, or `--resume` where there is a part of it. What cannot
  // be gone on with is removed.
  std::vector<std::string> prepare(const train::study::Design& design, const train::study::Run& run) const;
  void clear(const train::study::Run& run) const;
  // Of a finished run; gigabytes where there are many.
  void drop_models(const train::study::Run& run) const;

  // Writes the report files anew.
  void write_report(const train::study::Design& design, const std::vector<train::study::Cell>& cells,
                    const train::study::Results& results) const;

 private:
  const std::filesystem::path path_;
  std::optional<train::RunLock> lock_;
};

// "kith train ..." as one would type it.
std::string command_text(const train::study::Design& design, const train::study::Run& run,
                         const std::filesystem::path& folder);

}  // namespace kith::cli

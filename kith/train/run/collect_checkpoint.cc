#include "kith/train/run/collect_checkpoint.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/run/held_files.h"
#include "kith/train/run/move_files.h"
#include "kith/train/store_report.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;

constexpr auto kPatience = std::chrono::hours(1);  // for disks and links that are slow with large files

class Collection {
 public:
  explicit Collection(const Collecting& collecting)
      : c_(collecting), leads_(part_of(c_.parts, self()).number == self()) {}

  fs::path run() {
    const std::int64_t step = std::stoll(round(
        "held", [&] { return encode(held_in(c_.folder.checkpoints())); },
        [&](const std::vector<std::string>& told) {
          for (const std::string& text : told)
            held_.push_back(decode_held(text));
          return std::to_string(newest_step(c_.parts, held_));
        }));
    const Collected collected = decode_collected(round(
        "files", [&] { return encode(files_in(c_.folder, step)); },
        [&](const std::vector<std::string>& told) { return encode(plan(told, step)); }));
    const fs::path folder = checkpoint_path(c_.folder.checkpoints(), step);
    round(
        "moved", [&] { return take(collected, folder); },
        [](const std::vector<std::string>&) { return std::string(); });
    return folder;
  }

 private:
  int self() const { return c_.world.self().value; }

  // The workers that made the parts speak for them; `finish` gets what they say, in the order of the parts.
  std::string round(const std::string& name, const std::function<std::string()>& tell,
                    const StoreReport::Finish& finish) const {
    return StoreReport(c_.world, cat("train/collect/", name), kPatience)
        .run([&] { return leads_ ? tell() : std::string(); },
             [&](const std::vector<std::string>& reports) {
               std::vector<std::string> told;
               for (const Part& part : c_.parts)
                 told.push_back(reports.at(static_cast<std::size_t>(part.number)));
               return finish(told);
             });
  }

  Collected plan(const std::vector<std::string>& told, std::int64_t step) const {
    std::vector<HeldFiles> files;
    for (const std::string& text : told)
      files.push_back(decode_files(text));
    Collected collected = plan_moves(c_.parts, files, held_, step);
    c_.check(parse_manifest(collected.manifest, checkpoint_path({}, step).string()));
    return collected;
  }

  // What this part lacks, the manifest last.
  std::string take(const Collected& collected, const fs::path& folder) const {
    const std::string problem = move_files(c_.world, collected.moves,
                                           {.name = "train/collect/move",
                                            .folder = c_.folder.path(),
                                            .deadline = c_.world.clock->now() + kPatience});
    if (!problem.empty()) throw Error(problem, cat("worker ", self()));
    fs::create_directories(folder);
    write_manifest(folder, collected.manifest);
    return {};
  }

  const Collecting& c_;
  const bool leads_;
  std::vector<HeldCheckpoints> held_;  // rank 0: parallel to the parts
};

}  // namespace

fs::path collect_checkpoint(const Collecting& collecting) {
  return Collection(collecting).run();
}

}  // namespace kith::train

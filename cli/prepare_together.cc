#include "cli/prepare_together.h"

#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/watched_run.h"
#include "kith/base/error.h"
#include "kith/base/host_name.h"
#include "kith/base/text.h"
#include "kith/train/run/collect_checkpoint.h"
#include "kith/train/store_report.h"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kFolders = std::chrono::minutes(5);  // for a folder to be made
constexpr auto kReading =
    std::chrono::hours(1);  // for a checkpoint to be read; who is lost is noticed at once
constexpr char kRefusal = '!';
constexpr char kFailure = '?';

class Preparation {
 public:
  Preparation(const RunPlace& place, const train::Job& job, const launch::World& world)
      : place_(place), job_(job), world_(world), seen_(engine::seen_by_engine(world)) {}

  AgreedRun run() {
    self() == 0 ? announce() : hear();
    const std::string told =
        train::StoreReport(seen_, "train/parts", kFolders)
            .run([&] { return train::encode(own_part()); },
                 [](const std::vector<std::string>& all) { return train::encode(train::parts_of(all)); });
    AgreedRun run{*folder_, {}, train::decode_parts(told)};
    const bool leads = train::part_of(run.parts, self()).number == self();
    if (leads) {
      train::remove_marks(run.folder.path());
      train::write_part(run.folder.path(), mark_, self());
    }
    if (self() == 0 && run.parts.size() > 1)
      std::cout << "the run is in " << train::parts_text(run.parts) << std::endl;
    if (!place_.check_resumed) return run;
    run.checkpoint = run.parts.size() > 1 ? collect(run) : newest(run);
    if (leads) run.folder.write_config(job_);
    return run;
  }

 private:
  int self() const { return world_.self().value; }

  train::RunFolder make(const fs::path& path) const {
    return place_.check_resumed ? train::RunFolder::take_part(job_, path)
                                : train::RunFolder::create(job_, path);
  }

  // Worker 0.
  void announce() {
    const std::string key(kRunKey);
    try {
      folder_ = make(place_.path);
      mark_ = train::draw_mark();
      train::mark_part(folder_->path(), mark_, 0);
      world_.store().set(key, cat(kRunReady, folder_->path().string(), "\n", mark_));
    } catch (const InputError& error) {
      world_.store().set(key, cat(kRefusal, error.what()));
      throw;
    } catch (const std::exception& error) {
      world_.store().set(key, cat(kFailure, error.what()));
      throw;
    }
  }

  void hear() {
    const auto told = world_.store().wait(kRunKey, world_.clock().now() + kFolders);
    if (!told) throw Error("worker 0 has not prepared the run folder", cat("worker ", self()));
    const std::string text = told->substr(1);
    if (told->front() == kRefusal) throw InputError(text, "worker 0");
    if (told->front() == kFailure) throw Error(text, "worker 0");
    const auto newline = text.find('\n');
    first_ = text.substr(0, newline);
    mark_ = text.substr(newline + 1);
  }

  train::PartReport own_part() {
    if (self() == 0) return {0, host_name(), folder_->path()};
    if (place_.path.empty()) {
      if (const auto number = train::marked_part(first_, mark_)) return in(*number, first_);
    }
    const fs::path path =
        place_.path.empty() ? fs::path(job_.output.folder) / first_.filename() : place_.path;
    std::error_code problem;
    fs::create_directories(path, problem);
    if (problem)
      throw InputError(cat("cannot be made: ", problem.message()), cat(path.string(), " on ", host_name()),
                       "choose another --out or output.folder on that machine");
    const int number = train::mark_part(path, mark_, self());
    if (number != self()) return in(number, path);
    try {
      folder_ = make(path);
    } catch (const InputError& error) {
      train::remove_mark(path, mark_);
      throw InputError(error.what(), cat("worker ", self(), " on ", host_name()));
    }
    return {number, host_name(), folder_->path()};
  }

  train::PartReport in(int number, const fs::path& path) {
    folder_ = train::RunFolder::at(path);
    return {number, host_name(), folder_->path()};
  }

  fs::path collect(const AgreedRun& run) const {
    return train::collect_checkpoint({seen_, run.folder, run.parts, [&](const train::Manifest& manifest) {
                                        place_.check_resumed(job_, run.folder, manifest);
                                      }});
  }

  // Of a run that is all in one folder.
  fs::path newest(const AgreedRun& run) const {
    const fs::path root = run.folder.checkpoints();
    const std::string name =
        train::StoreReport(seen_, "train/checkpoint", kReading)
            .run([] { return std::string(); },
                 [&](const std::vector<std::string>&) {
                   const fs::path newest = train::newest_checkpoint(root);
                   place_.check_resumed(job_, run.folder, train::verify_checkpoint(newest));
                   return newest.filename().string();
                 });
    return root / name;
  }

  const RunPlace& place_;
  const train::Job& job_;
  const launch::World& world_;
  const engine::WorldParts seen_;
  fs::path first_;  // worker 0's folder, as it sees it
  std::string mark_;
  std::optional<train::RunFolder> folder_;
};

}  // namespace

AgreedRun prepare_together(const RunPlace& place, const train::Job& job, const launch::World& world) {
  return Preparation(place, job, world).run();
}

}  // namespace kith::cli

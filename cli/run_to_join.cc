#include "cli/run_to_join.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/watched_run.h"
#include "kith/base/error.h"
#include "kith/base/host_name.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/train/config/schema.h"
#include "kith/train/run/begun.h"
#include "kith/train/run/parts.h"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigOfRun = "train/config-of-run";
constexpr auto kBegin = std::chrono::minutes(5);      // for all to have found each other
constexpr auto kMakePart = std::chrono::seconds(30);  // for another newcomer of this machine
constexpr auto kLookAgain = std::chrono::milliseconds(20);

class RunToJoin {
 public:
  RunToJoin(const RunPlace& place, const train::ReadJob& own, const launch::World& world)
      : place_(place), own_(own), world_(world), name_(cat("worker ", world.self().value)) {}

  JoinedRun find() {
    hear();
    // Of kith train on one machine: there is one folder.
    if (mark_.empty()) return {visible(first_), job_in(train::RunFolder::at(first_).config()), 0};
    const auto begun = world_.store().wait(train::kBegunKey, world_.clock().now() + kBegin);
    const auto config = begun ? world_.store().get(kConfigOfRun) : std::nullopt;
    if (!config) throw InputError("the run has not begun", name_, "join a job that runs");
    const TempFolder told("kith-join");
    const fs::path file = fs::path(told.path()) / "config.toml";
    std::ofstream(file, std::ios::binary) << *config;
    const train::Job job = job_in(file);
    JoinedRun run = part_of(job);
    train::tell_newcomer(world_.store(), world_.self().value, {run.part, host_name(), run.folder.path()});
    return run;
  }

 private:
  void hear() {
    const auto told = world_.store().wait(kRunKey, world_.clock().now() + kLookForRun);
    if (!told || told->front() != kRunReady)
      throw InputError("no kith train has begun in that store", name_, "join the store of a running job");
    const auto newline = told->find('\n');
    first_ = told->substr(1, newline - 1);
    if (newline != std::string::npos) mark_ = told->substr(newline + 1);
  }

  static train::RunFolder visible(const fs::path& folder) {
    if (!fs::exists(folder))
      throw InputError("this machine does not see the folder of the run that it joins", folder.string(),
                       "join on a machine that sees the folder of worker 0");
    return train::RunFolder::open(folder);
  }

  // With this process's own places, where they are given.
  train::Job job_in(const fs::path& config) const {
    std::vector<train::Setting> places;
    train::Job asked = own_.job;
    for (const std::string_view name : {"data.path", "data.threads", "world.compute_threads"}) {
      const auto origin = own_.origins.find(std::string(name));
      if (origin != own_.origins.end())
        places.push_back(
            {cat(name, "=", train::toml_text(train::find_key(name)->field(asked))), origin->second});
    }
    return train::read_job({.file = config.string(), .settings = places}).job;
  }

  JoinedRun part_of(const train::Job& job) const {
    const fs::path here = place_.path.empty() ? fs::path(job.output.folder) / first_.filename() : place_.path;
    for (const fs::path& path : {place_.path.empty() ? first_ : here, here})
      if (const auto number = train::part_in(path, mark_)) return {train::RunFolder::at(path), job, *number};
    return make_part(job, here);
  }

  JoinedRun make_part(const train::Job& job, const fs::path& path) const {
    std::error_code problem;
    fs::create_directories(path, problem);
    if (problem)
      throw InputError(cat("cannot be made: ", problem.message()), cat(path.string(), " on ", host_name()),
                       "choose another --out or output.folder on that machine");
    const int self = world_.self().value;
    if (train::mark_part(path, mark_, self) != self) return await_part(job, path);
    try {
      const train::RunFolder folder =
          place_.check_resumed ? train::RunFolder::take_part(job, path) : train::RunFolder::create(job, path);
      train::write_part(path, mark_, self);
      train::remove_mark(path, mark_);
      return {folder, job, self};
    } catch (const InputError& error) {
      train::remove_mark(path, mark_);
      throw InputError(error.what(), cat(name_, " on ", host_name()));
    }
  }

  // That another newcomer makes.
  JoinedRun await_part(const train::Job& job, const fs::path& path) const {
    const Deadline deadline = world_.clock().now() + kMakePart;
    while (world_.clock().now() < deadline) {
      if (const auto number = train::part_in(path, mark_)) return {train::RunFolder::at(path), job, *number};
      std::this_thread::sleep_for(kLookAgain);
    }
    throw Error("another newcomer has not made this part of the run", path.string(), "see how it ended");
  }

  const RunPlace& place_;
  const train::ReadJob& own_;
  const launch::World& world_;
  const std::string name_;
  fs::path first_;  // worker 0's folder, as it sees it
  std::string mark_;
};

}  // namespace

void tell_config(comm::Store& store, const train::Job& job) {
  store.set(kConfigOfRun, train::print_config(job));
}

JoinedRun find_run(const RunPlace& place, const train::ReadJob& own, const launch::World& world) {
  return RunToJoin(place, own, world).find();
}

}  // namespace kith::cli

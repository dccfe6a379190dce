#include "cli/local_launch.h"

#include <csignal>
#include <utility>

#include "cli/local_workers.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

std::string name_of(int worker) {
  return cat("worker ", worker);
}

}  // namespace

LocalLaunch::LocalLaunch(LocalLaunchOptions options)
    : options_(std::move(options)),
      output_(options_.supervision.deaths.then),
      supervisor_(options_.supervision),
      crew_(supervisor_,
            {.hosts = {options_.workers},
             .elastic = options_.elastic,
             .start = [this](int worker, Seat seat) { start(worker, seat.local); },
             .ask_to_leave = [this](int worker, Seat) { supervisor_.signal(name_of(worker), SIGUSR1); }}) {}

int LocalLaunch::run() {
  crew_.begin();
  if (options_.elastic) {
    clerk_ = std::make_unique<ScaleClerk>(
        supervisor_,
        [this](Deadline deadline) {
          return launch::reach_store(options_.store, {.secret = options_.secret}, deadline);
        },
        [this](const ScaleRequest& request) {
          clerk_->answer(answer_of([&] { return crew_.scale_to(request.workers, request.can_leave); }));
        },
        log_);
  }
  const int code = supervisor_.wait();
  output_.finish(code);
  return code;
}

void LocalLaunch::start(int worker, int place) {
  const std::string tag = std::to_string(worker);
  const std::string left_file = left_file_in(options_.left_files, worker);
  ChildOptions child{.name = name_of(worker),
                     .command = options_.command,
                     .environment = local_environment(worker, options_.workers, options_.store.text())};
  child.environment["KITH_LOCAL_RANK"] = std::to_string(place % options_.workers);
  child.environment[std::string(launch::kLeftFile)] = left_file;
  if (worker >= options_.workers) child.environment[std::string(launch::kNewcomer)] = "1";
  child.environment.insert(options_.environment.begin(), options_.environment.end());
  child.on_line = [this, tag](Stream stream, std::string_view line) { output_.line(tag, stream, line); };
  child.left = [left_file] { return has_left(left_file); };
  child.on_end = [this, worker, tag, left_file](const Ending& ending) {
    output_.ended(name_of(worker), tag, ending);
    crew_.ended(worker, ending, has_left(left_file));
  };
  supervisor_.start(std::move(child));
}

}  // namespace kith::cli

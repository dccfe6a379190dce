#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "cli/launch_hosts.h"
#include "cli/launch_wire.h"
#include "cli/local_workers.h"
#include "cli/scale_requests.h"
#include "cli/supervisor.h"
#include "kith/base/error.h"
#include "kith/base/log.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/launch/meeting_point.h"
#include "kith/launch/secret.h"

namespace kith::cli {
namespace {

void say(const AgentEvent& event) {
  const std::string line = to_line(event) + "\n";
  // When the launcher is gone, so is the input, which ends everything.
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
}

// The workers of this machine, and what the launcher has to say to them.
class Agent {
 public:
  Agent(AgentTask task, const TempFolder& folder)
      : task_(std::move(task)),
        folder_(folder),
        // With how few the run goes on, and how late a worker may be, is for the launcher to say.
        supervisor_({.deaths = {.then = task_.deaths, .least = 0}, .end_within = std::chrono::hours(8760)}) {
    launch::write_secret(secret_file(), task_.secret);
    if (task_.serves)
      server_ =
          launch::serve_store(store(), {.interface = interface(), .secret = task_.secret, .log = &log_});
  }

  int run() {
    if (waits_for_others()) supervisor_.hold();
    for (int local = 0; local < task_.local_workers; ++local)
      start(task_.first_worker + local, local);
    supervisor_.hear(
        STDIN_FILENO, [this](std::string_view words) { obey(words); }, [this] { supervisor_.end_all(); });
    if (task_.hears_scale)
      clerk_ = std::make_unique<ScaleClerk>(
          supervisor_, [this](Deadline deadline) { return reach(deadline); },
          [](const ScaleRequest& request) { say({.worker = 0, .text = {}, .scale = to_words(request)}); },
          log_);
    return supervisor_.wait();
  }

 private:
  // For workers elsewhere, who need the store, or for workers that are still to come.
  bool waits_for_others() const { return task_.serves || task_.elastic; }

  std::string secret_file() const { return folder_.path() + "/secret"; }
  launch::MeetingPoint store() const { return launch::parse_meeting_point(task_.store, "--store"); }
  std::string interface() const {
    const auto found = task_.environment.find("KITH_INTERFACE");
    return found == task_.environment.end() ? std::string() : found->second;
  }
  // As this process reaches it, which may serve it.
  std::shared_ptr<comm::WillStore> reach(Deadline deadline) const {
    launch::MeetingPoint at = store();
    if (server_) at.address = server_->bound();
    if (at.address.host == "0.0.0.0") at.address.host = "127.0.0.1";
    return launch::reach_store(
        at, {.interface = server_ ? std::string() : interface(), .secret = task_.secret}, deadline);
  }

  void obey(std::string_view words) {
    const auto after = [&](std::string_view word) { return words.substr(word.size()); };
    if (words == kOver && waits_for_others()) supervisor_.release();
    if (words.starts_with(kAnswer) && clerk_) clerk_->answer(std::string(after(kAnswer)));
    if (words.starts_with(kStart)) {
      const auto [worker, local] = numbers_of(after(kStart));
      start(worker, local);
    }
    if (words.starts_with(kLeave))
      supervisor_.signal(cat("worker ", numbers_of(after(kLeave)).first), SIGUSR1);
    if (!words.starts_with(kSignal)) return;
    if (const int signal = numbers_of(after(kSignal)).first; signal > 0) supervisor_.pass_on(signal);
  }

  void start(int worker, int local) {
    const std::string left_file = left_file_in(folder_.path(), worker);
    ChildOptions child{
        .name = cat("worker ", worker), .command = task_.command, .environment = task_.environment};
    child.environment["KITH_WORKER"] = std::to_string(worker);
    child.environment["KITH_WORKERS"] = std::to_string(task_.workers);
    child.environment["KITH_LOCAL_RANK"] = std::to_string(local % task_.local_workers);
    child.environment["KITH_LOCAL_WORKERS"] = std::to_string(task_.local_workers);
    child.environment["KITH_STORE"] = task_.store;
    child.environment["KITH_SECRET_FILE"] = secret_file();
    child.environment[std::string(launch::kLeftFile)] = left_file;
    if (worker >= task_.workers) child.environment[std::string(launch::kNewcomer)] = "1";
    child.on_line = [worker](Stream stream, std::string_view line) {
      say({.worker = worker, .stream = stream, .text = std::string(line)});
    };
    child.left = [left_file] { return has_left(left_file); };
    child.on_end = [worker, left_file](const Ending& ending) {
      say({.worker = worker, .text = {}, .ending = ending, .left = has_left(left_file)});
    };
    supervisor_.start(std::move(child));
  }

  const AgentTask task_;
  const TempFolder& folder_;
  StderrLog log_{"kith launch"};
  Supervisor supervisor_;
  std::unique_ptr<comm::TcpStoreServer> server_;
  std::unique_ptr<ScaleClerk> clerk_;
};

}  // namespace

int run_agent() {
  std::string line;
  // By hand: a buffered reader would take the lines that follow along.
  for (char c = 0; ::read(STDIN_FILENO, &c, 1) == 1 && c != '\n';)
    line += c;
  const AgentTask task = parse_task(line);
  std::error_code problem;
  std::filesystem::current_path(task.folder, problem);
  if (problem) {
    throw InputError(cat("cannot enter the folder: ", problem.message()), task.folder,
                     "every host needs the folder that kith launch is started in");
  }
  const TempFolder folder("kith");
  return Agent(task, folder).run();
}

}  // namespace kith::cli

#include <charconv>
#include <filesystem>
#include <iostream>
#include <system_error>

#include <unistd.h>

#include "cli/launch_hosts.h"
#include "cli/launch_wire.h"
#include "cli/supervisor.h"
#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/launch/secret.h"

namespace kith::cli {
namespace {

void say(const AgentEvent& event) {
  const std::string line = to_line(event) + "\n";
  // When the launcher is gone, so is the input, which ends everything.
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
}

void start_worker(Supervisor& supervisor, const AgentTask& task, int local, const std::string& secret_file) {
  const int worker = task.first_worker + local;
  ChildOptions child{.command = task.command, .environment = task.environment};
  child.environment["KITH_WORKER"] = std::to_string(worker);
  child.environment["KITH_WORKERS"] = std::to_string(task.workers);
  child.environment["KITH_LOCAL_RANK"] = std::to_string(local);
  child.environment["KITH_LOCAL_WORKERS"] = std::to_string(task.local_workers);
  child.environment["KITH_STORE"] = task.store;
  child.environment["KITH_SECRET_FILE"] = secret_file;
  child.on_line = [worker](Stream stream, std::string_view line) {
    say({.worker = worker, .stream = stream, .text = std::string(line)});
  };
  child.on_end = [worker](const Ending& ending) { say({.worker = worker, .text = {}, .ending = ending}); };
  supervisor.start(std::move(child));
}

}  // namespace

int run_agent() {
  Supervisor supervisor;
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
  const std::string secret_file = folder.path() + "/secret";
  launch::write_secret(secret_file, task.secret);
  for (int local = 0; local < task.local_workers; ++local)
    start_worker(supervisor, task, local, secret_file);
  supervisor.hear(
      STDIN_FILENO,
      [&supervisor](std::string_view words) {
        int signal = 0;
        constexpr std::string_view kSignal = "signal ";
        if (!words.starts_with(kSignal)) return;
        std::from_chars(words.data() + kSignal.size(), words.data() + words.size(), signal);
        if (signal > 0) supervisor.pass_on(signal);
      },
      [&supervisor] { supervisor.end_all(); });
  return supervisor.wait();
}

}  // namespace kith::cli

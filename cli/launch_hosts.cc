#include "cli/launch_hosts.h"

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/launch_output.h"
#include "cli/launch_wire.h"
#include "cli/supervisor.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

// For the remote shell.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::string& word : split(text, ' '))
    if (!word.empty()) words.push_back(std::move(word));
  return words;
}

}  // namespace

std::vector<LaunchHost> parse_hosts(std::string_view text) {
  std::vector<LaunchHost> hosts;
  for (const std::string& part : split(text, ',')) {
    const auto colon = part.rfind(':');
    LaunchHost host{part.substr(0, colon), 1};
    if (colon != std::string::npos) {
      const char* end = part.data() + part.size();
      const auto [at, status] = std::from_chars(part.data() + colon + 1, end, host.workers);
      if (status != std::errc{} || at != end) host.workers = 0;
    }
    // A name that begins with '-' would be an option to ssh.
    if (host.address().empty() || host.name.front() == '-' || host.workers < 1) {
      throw InputError(cat("'", part, "' is not HOST or HOST:WORKERS"), "--hosts",
                       "for example node1:2,node2:2");
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

int launch_on_hosts(const HostsLaunch& launch) {
  int workers = 0;
  for (const LaunchHost& host : launch.hosts)
    workers += host.workers;
  const std::vector<std::string> ssh = words_of(launch.ssh);
  if (ssh.empty()) throw InputError("is empty", "--ssh", "for example \"ssh -p 2222\"");

  LaunchOutput output;
  Supervisor supervisor;
  int first = 0;
  for (const LaunchHost& host : launch.hosts) {
    AgentTask task{.command = launch.command,
                   .folder = std::filesystem::current_path().string(),
                   .environment = launch.environment,
                   .secret = launch.secret,
                   .store = launch.store,
                   .first_worker = first,
                   .local_workers = host.workers,
                   .workers = workers};
    first += host.workers;
    ChildOptions child;
    child.command = ssh;
    child.command.insert(child.command.end(),
                         {host.name, cat("exec ", quoted(own_program()), " launch --agent")});
    child.remote_input = to_line(task) + "\n";
    child.on_line = [&, name = host.name](Stream stream, std::string_view line) {
      const auto event = stream == Stream::out ? parse_event(line) : std::nullopt;
      if (!event) return output.line(name, stream, line);
      const std::string tag = std::to_string(event->worker);
      if (!event->ending) return output.line(tag, event->stream, event->text);
      output.ended(cat("worker ", event->worker), tag, *event->ending);
      if (event->ending->code != 0) supervisor.note_failure(event->ending->code);
    };
    child.on_end = [&output, name = host.name](const Ending& ending) {
      output.ended(cat("host ", name), name, ending);
    };
    supervisor.start(std::move(child));
  }
  const int code = supervisor.wait();
  output.finish();
  return code;
}

}  // namespace kith::cli

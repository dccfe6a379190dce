#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/supervisor.h"
#include "kith/launch/environment.h"

namespace kith::cli {

// What `kith launch` and its agents on other machines say to each other over ssh.

// The first line of an agent's input: its whole task. Lines "signal NUMBER" follow.
struct AgentTask {
  std::vector<std::string> command;
  std::string folder;
  launch::Environment environment;
  std::string secret;
  std::string store;
  int first_worker = 0;
  int local_workers = 1;
  int workers = 1;
};
std::string to_line(const AgentTask& task);
// InputError when it is none.
AgentTask parse_task(std::string_view line);

// A line of an agent's output: a worker wrote a line, or ended.
struct AgentEvent {
  int worker = 0;
  Stream stream = Stream::out;
  std::string text;
  std::optional<Ending> ending = {};
};
std::string to_line(const AgentEvent& event);
// Nothing for a line that no agent wrote (a shell's greeting).
std::optional<AgentEvent> parse_event(std::string_view line);

}  // namespace kith::cli

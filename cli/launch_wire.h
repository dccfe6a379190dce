#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/supervisor.h"
#include "kith/launch/environment.h"

namespace kith::cli {

// What `kith launch` and its agents on other machines say to each other over ssh.

// The first line of an agent's input: its whole task. Lines "signal NUMBER" follow, and AgentOrders.
struct AgentTask {
  std::vector<std::string> command;
  std::string folder;
  launch::Environment environment;
  std::string secret;
  std::string store;         // for the workers
  bool serves = false;       // the store, until it hears kOver
  bool elastic = false;      // others may come, until it hears kOver
  bool hears_scale = false;  // requests of kith scale, in the store
  OnDeath deaths = OnDeath::end;
  int first_worker = 0;
  int local_workers = 1;
  int workers = 1;
};
std::string to_line(const AgentTask& task);
// InputError when it is none.
AgentTask parse_task(std::string_view line);

// A line of its input later on.
//   over           every worker of every machine has ended
//   start 9 1      worker 9 comes, to that seat of the machine
//   leave 9        worker 9 is to leave the run
//   answer TEXT    to the request of kith scale that it has told of last
inline constexpr std::string_view kOver = "over";
inline constexpr std::string_view kStart = "start ";
inline constexpr std::string_view kLeave = "leave ";
inline constexpr std::string_view kAnswer = "answer ";
inline constexpr std::string_view kSignal = "signal ";
// The numbers behind such a word; 0 where there is none.
std::pair<int, int> numbers_of(std::string_view text);

// A line of an agent's output: a worker wrote a line, or ended, perhaps because it left a run that goes on;
// or kith scale asks (ScaleRequest in words, and no worker).
struct AgentEvent {
  int worker = 0;
  Stream stream = Stream::out;
  std::string text;
  std::optional<Ending> ending = {};
  bool left = false;
  std::optional<std::string> scale = {};
};
std::string to_line(const AgentEvent& event);
// Nothing for a line that no agent wrote (a shell's greeting).
std::optional<AgentEvent> parse_event(std::string_view line);

}  // namespace kith::cli

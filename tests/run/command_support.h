#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "tests/run/support.h"
#include "tests/support/command.h"

namespace kith::train {

inline bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// The process of that worker among those that `started` says are a run's, by its place in the environment.
inline std::optional<pid_t> find_process(int number, const std::function<bool(pid_t pid)>& started) {
  const std::string wanted = "KITH_WORKER=" + std::to_string(number) + std::string(1, '\0');
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    if (started(pid) && read_text(entry.path() / "environ").find(wanted) != std::string::npos) return pid;
  }
  return {};
}

// The process of a worker that `running` started: by kith train, in its group.
inline std::optional<pid_t> find_worker(const support::Command& running, int number) {
  return find_process(number,
                      [&](pid_t pid) { return pid != running.pid() && ::getpgid(pid) == running.pid(); });
}

// By kith launch, as its child.
inline std::optional<pid_t> find_launched(const support::Command& running, int number) {
  return find_process(number, [&](pid_t pid) {
    const std::string status = read_text("/proc/" + std::to_string(pid) + "/status");
    return status.find("PPid:\t" + std::to_string(running.pid()) + "\n") != std::string::npos;
  });
}

}  // namespace kith::train

#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kith/observe/followed_file.h"
#include "kith/observe/run_state.h"

namespace kith::observe {

// "section.key" and its value as the file writes it, in the order of config.toml.
using Settings = std::vector<std::pair<std::string, std::string>>;

// The value of a key, without quotes; empty: it is not there.
std::string setting(const Settings& settings, std::string_view key);

// Reads what `kith train` left in a run folder, while it still runs or later. One thread.
class RunReader {
 public:
  // InputError when the folder is no run folder: it has neither config.toml nor a worker's metrics.
  explicit RunReader(const std::filesystem::path& folder);

  // Takes up what has been written since the last call. What a resumed run has taken back is taken back here
  // too.
  void refresh();

  const std::filesystem::path& folder() const { return folder_; }
  std::string name() const { return folder_.filename().string(); }
  const RunState& state() const { return state_; }
  // When the worker's file was last written, as Unix time of this machine.
  double written(int worker) const;

  std::string config_text() const;
  Settings settings() const;
  // The text of summary.json; empty: there is none.
  std::string summary_text() const;

 private:
  // False when some file is another one now.
  bool take_new_lines();

  std::filesystem::path folder_;
  std::map<int, FollowedFile> files_;
  RunState state_;
};

// Calls `take(worker, line)` with every line of a run folder, worker by worker.
template <class Take>
void for_each_line(const std::filesystem::path& folder, const Take& take);

// The workers that have a folder in the run, ascending.
std::vector<int> workers_in(const std::filesystem::path& folder);

std::filesystem::path metrics_file(const std::filesystem::path& folder, int worker);

template <class Take>
void for_each_line(const std::filesystem::path& folder, const Take& take) {
  for (const int worker : workers_in(folder)) {
    FollowedFile file(metrics_file(folder, worker));
    file.read([&](std::string_view text) {
      if (const auto line = parse_line(text)) take(worker, *line);
    });
  }
}

}  // namespace kith::observe

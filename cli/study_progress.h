#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace kith::cli {

// What a study tells while it runs: a line for each run that starts and ends, in a file and on standard
// output; a terminal gets the ends, and a line of state that is drawn over itself.
class StudyProgress {
 public:
  StudyProgress(const std::filesystem::path& log, bool terminal);
  // Ends the line of state.
  ~StudyProgress();
  StudyProgress(const StudyProgress&) = delete;
  StudyProgress& operator=(const StudyProgress&) = delete;

  struct State {
    std::size_t done = 0, all = 0, running = 0;
    std::int64_t steps_done = 0, steps_left = 0;  // done since the start, for the time that is left
  };
  void set(const State& state) { state_ = state; }

  void started(const std::string& text);
  void note(const std::string& text);
  // On a terminal, at most once a second.
  void refresh();

 private:
  using SteadyClock = std::chrono::steady_clock;

  std::string stamp() const;
  void erase_state();
  void draw_state();

  const bool terminal_;
  const SteadyClock::time_point start_ = SteadyClock::now();
  std::ofstream log_;
  State state_;
  SteadyClock::time_point drawn_{};
  bool shown_ = false;
};

}  // namespace kith::cli

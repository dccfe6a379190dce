#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace kith::cli {

// `--elastic MIN:MAX`: with fewer than `least` workers everybody ends; never are there more than `most`.
struct Elastic {
  int least = 1;
  int most = 1;
};

// InputError naming --elastic.
Elastic parse_elastic(std::string_view text);

// Who takes the place of a worker that died: a newcomer with an id that nobody had. No processes.
class Newcomers {
 public:
  // The others get this long to be seen dead too: a run that fails as a whole is not started anew.
  static constexpr auto kPause = std::chrono::seconds(1);

  // The first id that is free.
  explicit Newcomers(int next) : next_(next) {}

  // The newcomer's id. Nothing when none is to come: its exit code says bad input, which no newcomer mends;
  // or the last three workers that died had lived for less than five seconds each.
  std::optional<int> replace(int code, std::chrono::milliseconds lived);
  // One more, for nobody: its id.
  int add() { return next_++; }
  // Newcomers do not live long enough to be of use.
  bool given_up() const { return quick_deaths_ >= kMostQuickDeaths; }

 private:
  static constexpr int kMostQuickDeaths = 3;

  int next_;
  int quick_deaths_ = 0;  // in a row
};

}  // namespace kith::cli

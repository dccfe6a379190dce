#pragma once

#include <functional>

namespace kith::cli {

// What the death of a worker means for the others. A worker dies when a signal kills it or its exit code is
// not 0.
enum class OnDeath {
  end,    // they get a moment to end by themselves, and are then made to
  go_on,  // they go on without it
};

struct DeathPolicy {
  OnDeath then = OnDeath::end;
  // go_on: with fewer workers left (who run, or have ended with 0) everybody ends.
  int least = 1;
  // go_on: whether they have found each other; before that they cannot go on without one. Empty: from the
  // start.
  std::function<bool()> begun = {};
};

// Who is left of the workers of a run, and what its exit code is. No processes: the supervisor tells it.
class Roll {
 public:
  explicit Roll(DeathPolicy policy) : policy_(policy) {}

  void started(int workers = 1) { started_ += workers; }
  // Everybody was asked to end: whoever fails from now on is not lost but has failed.
  void all_asked() { all_asked_ = true; }
  bool asked() const { return all_asked_; }
  // One has left on purpose, and the others go on.
  void went() { --started_; }
  // True when the others are to end.
  bool died(int code) {
    if (policy_.then == OnDeath::go_on && !all_asked_ && (!policy_.begun || policy_.begun())) {
      ++lost_;
      if (first_death_ == 0) first_death_ = code;
      if (left() >= policy_.least) return false;
      code = first_death_;
    }
    if (code_ == 0) code_ = code;
    return true;
  }
  // Who was killed because its time was over, where nobody has failed.
  void killed(int code) {
    if (code_ == 0) code_ = code;
  }

  int lost() const { return lost_; }
  int left() const { return started_ - lost_; }
  // 0, or the first failure's.
  int code() const { return code_; }

 private:
  const DeathPolicy policy_;
  int started_ = 0;
  int lost_ = 0;
  int first_death_ = 0;
  int code_ = 0;
  bool all_asked_ = false;
};

}  // namespace kith::cli

#pragma once

#include <array>
#include <future>
#include <memory>

#include "kith/base/job_threads.h"
#include "kith/gossip/machine_reducer.h"

namespace kith::gossip {

// Takes rounds over machines through their stages while the model computes. One thread per stage: a bucket's
// sums are formed while the bucket before it is under way between the machines.
class CommThreads {
 public:
  CommThreads();
  // Finishes the stages in progress and drops the rest: at once where the waits of their windows are
  // cancelled.
  ~CommThreads();
  CommThreads(const CommThreads&) = delete;
  CommThreads& operator=(const CommThreads&) = delete;

  // The round comes back when it is done. Rounds given in the same order pass every stage in that order.
  // `reducer` must outlive the threads; its rounds come one at a time.
  template <class T>
  using Round = std::unique_ptr<typename MachineReducer<T>::Round>;
  template <class T>
  std::future<Round<T>> submit(MachineReducer<T>& reducer, Round<T> round);

 private:
  static constexpr std::size_t kStages = 3;
  template <class T>
  struct Work;
  template <class T>
  void run(std::shared_ptr<Work<T>> work, std::size_t stage);

  std::array<std::unique_ptr<JobThreads>, kStages> stages_;
};

}  // namespace kith::gossip

#pragma once

#include <array>
#include <future>
#include <memory>

#include "kith/engine/job_threads.h"
#include "kith/gossip/machine_reducer.h"

namespace kith::engine {

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

  // Rounds given in the same order pass every stage in that order. `reducer` must outlive the threads; its
  // rounds come one at a time.
  template <class T>
  std::future<gossip::RoundReport> submit(gossip::MachineReducer<T>& reducer,
                                          std::unique_ptr<typename gossip::MachineReducer<T>::Round> round);

 private:
  static constexpr std::size_t kStages = 3;
  template <class T>
  struct Work;
  template <class T>
  void run(std::shared_ptr<Work<T>> work, std::size_t stage);

  std::array<std::unique_ptr<JobThreads>, kStages> stages_;
};

}  // namespace kith::engine

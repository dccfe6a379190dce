#include "kith/engine/comm_threads.h"

#include <exception>
#include <utility>

namespace kith::engine {

template <class T>
struct CommThreads::Work {
  using Reducer = gossip::MachineReducer<T>;
  Reducer& reducer;
  std::unique_ptr<typename Reducer::Round> round;
  std::promise<gossip::RoundReport> done;
};

CommThreads::CommThreads() {
  for (auto& stage : stages_)
    stage = std::make_unique<JobThreads>();
}

CommThreads::~CommThreads() {
  // A stage hands its work to the next one, so the first ends first.
  for (auto& stage : stages_)
    stage.reset();
}

template <class T>
std::future<gossip::RoundReport> CommThreads::submit(
    gossip::MachineReducer<T>& reducer, std::unique_ptr<typename gossip::MachineReducer<T>::Round> round) {
  auto work = std::make_shared<Work<T>>(Work<T>{reducer, std::move(round), {}});
  std::future<gossip::RoundReport> done = work->done.get_future();
  run(std::move(work), 0);
  return done;
}

template <class T>
void CommThreads::run(std::shared_ptr<Work<T>> work, std::size_t stage) {
  stages_[stage]->submit([this, work, stage] {
    try {
      constexpr std::array stages{&Work<T>::Reducer::sum_inside, &Work<T>::Reducer::exchange,
                                  &Work<T>::Reducer::collect};
      (work->reducer.*stages[stage])(*work->round);
    } catch (...) {
      work->done.set_exception(std::current_exception());
      return;
    }
    if (stage + 1 < kStages) {
      run(work, stage + 1);
    } else {
      work->done.set_value(std::move(work->round->report));
    }
  });
}

template std::future<gossip::RoundReport> CommThreads::submit(
    gossip::MachineReducer<float>&, std::unique_ptr<gossip::MachineReducer<float>::Round>);
template std::future<gossip::RoundReport> CommThreads::submit(
    gossip::MachineReducer<double>&, std::unique_ptr<gossip::MachineReducer<double>::Round>);

}  // namespace kith::engine

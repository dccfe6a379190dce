#include "kith/gossip/comm_threads.h"

#include <exception>
#include <utility>

namespace kith::gossip {

template <class T>
struct CommThreads::Work {
  MachineReducer<T>& reducer;
  Round<T> round;
  std::promise<Round<T>> done;
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
std::future<CommThreads::Round<T>> CommThreads::submit(MachineReducer<T>& reducer, Round<T> round) {
  auto work = std::make_shared<Work<T>>(Work<T>{reducer, std::move(round), {}});
  std::future<Round<T>> done = work->done.get_future();
  run(std::move(work), 0);
  return done;
}

template <class T>
void CommThreads::run(std::shared_ptr<Work<T>> work, std::size_t stage) {
  stages_[stage]->submit([this, work, stage] {
    try {
      constexpr std::array stages{&MachineReducer<T>::sum_inside, &MachineReducer<T>::exchange,
                                  &MachineReducer<T>::collect};
      (work->reducer.*stages[stage])(*work->round);
    } catch (...) {
      work->done.set_exception(std::current_exception());
      return;
    }
    if (stage + 1 < kStages) {
      run(work, stage + 1);
    } else {
      work->done.set_value(std::move(work->round));
    }
  });
}

template std::future<CommThreads::Round<float>> CommThreads::submit(MachineReducer<float>&, Round<float>);
template std::future<CommThreads::Round<double>> CommThreads::submit(MachineReducer<double>&, Round<double>);

}  // namespace kith::gossip

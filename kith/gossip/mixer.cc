#include "kith/gossip/mixer.h"

#include <utility>

#include "kith/base/check.h"
#include "kith/base/rng.h"

namespace kith::gossip {

template <class T>
Mixer<T>::Mixer(comm::Transport& transport, const graph::Schedule& schedule, Members members,
                kernels::Kernels<T>& kernels, const Clock& clock, MixerOptions options)
    : schedule_(schedule),
      members_(std::move(members)),
      kernels_(kernels),
      clock_(clock),
      options_(std::move(options)),
      self_(members_.rank_of(transport.self())),
      work_(kernels::host_device()),
      channel_(transport, members_, schedule, clock, channel_options(transport)),
      values_(channel_.outgoing(0).values) {
  KITH_CHECK_EQ(members_.size(), schedule.workers(), "one member for each worker of the schedule");
}

template <class T>
ChannelOptions Mixer<T>::channel_options(const comm::Transport& transport) {
  ChannelOptions channel;
  channel.name = options_.name;
  channel.count = whole_blocks(options_.wire, options_.count);
  channel.wire = options_.wire;
  channel.digest = hash_words(options_.count);
  channel.patience = options_.open_timeout;
  channel.keeps_values = true;
  channel.over_machines = HopSizes::of(schedule_, machines_of(transport, members_), channel.count).any();
  channel.least_sum = options_.sums_groups ? GroupReducer<T>::kLeast : 0;
  channel.work = &work_;
  return channel;
}

template <class T>
void Mixer<T>::publish() {
  channel_.publish(schedule_.round(self_, t_), weight_);
  channel_.finish(work_.device.compute().mark());
}

template <class T>
void Mixer<T>::start() {
  KITH_CHECK_EQ(t_, 0, "start comes before the first round");
  const kernels::Destination<T> to = channel_.outgoing(0);
  const kernels::Source values{values_, dtype_of<T>(), 1};
  if (to.encoded)
    kernels_.mix({nullptr, to.encoded, to.encoded_type, to.draw}, {{&values, 1}}, options_.count);
  publish();
}

template <class T>
RoundReport Mixer<T>::round(Deadline deadline) {
  const Gathered& gathered = channel_.gather(schedule_.round(self_, t_), nullptr, weight_, deadline);
  RoundReport report = gathered.report();
  // The next slot's readers have had a whole round to let go of it. One that has not is slow or gone, but its
  // memory cannot be taken from under it: wait on, boundedly, until it is judged lost.
  const Clock::Time before = clock_.now();
  const kernels::Destination<T> to = channel_.outgoing(0);
  report.waited += clock_.now() - before;
  mix_into(to, gathered, options_.count, kernels_);
  values_ = to.values;
  weight_ = report.weight;
  ++t_;
  publish();
  return report;
}

template class Mixer<float>;
template class Mixer<double>;

}  // namespace kith::gossip

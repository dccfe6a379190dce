#pragma once

#include "kith/optim/algorithm.h"

namespace kith::optim {

// A round in the middle of several: what came in round k goes out in round k + 1.
template <class T>
void pass_on(BucketStep<T>& b, int channel, int k) {
  const gossip::Gathered& neighbours = b.gather(channel, k);
  for (const SegmentView& s : b.segments())
    b.mix(s, b.mix_of(neighbours, channel, s), b.outgoing(channel, s));
  b.publish(channel, k + 1);
}

}  // namespace kith::optim

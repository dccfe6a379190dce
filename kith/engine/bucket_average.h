#pragma once

#include <span>
#include <string>

#include "kith/engine/bucket_model.h"
#include "kith/gossip/tree.h"

namespace kith::engine {

// What is rare, of one bucket with every member, piece by piece through host memory. The members call the
// same in the same order.

// Everybody's model becomes rank 0's.
template <class T>
void share_start(BucketModel<T>& model, gossip::Tree<T>& all, Deadline deadline);

// Writes the members' mean of segment i to to[i], on the device, in the segment's own type. Returns the mean
// over the members of the squared distance to it. Error naming `what` when a member is missing.
template <class T>
double average(const BucketModel<T>& model, gossip::Tree<T>& all, std::span<void* const> to,
               const std::string& what, Deadline deadline);

// Mean over the members of the squared distance to the mean.
template <class T>
double squared_consensus_distance(const BucketModel<T>& model, gossip::Tree<T>& all, Deadline deadline);

}  // namespace kith::engine

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kith/base/ids.h"
#include "kith/engine/world_parts.h"
#include "kith/train/data/sampler.h"
#include "kith/train/run/summary.h"
#include "kith/train/run/time_budget.h"

namespace kith::train {

// Note [A newcomer's first steps]
// A view that has a newcomer begins in a step, for which the others have drawn their batches already. The
// newcomer makes that step without a batch of its own: it mixes, or takes the others' gradients over. Then
// all settle (kith/train/run/membership.h): the others deal the data among all members and put what the
// newcomer must know into the Store, all the same words; the newcomer waits for them there. From then on it
// does as everybody does. A welcome of some steps ago comes with the donor's state, so that the rate of that
// first step is the others' too.

// What a worker that joins must know of a run, beside the model.
struct Welcome {
  Members members;           // among whom the data is dealt, by rank
  SamplerPosition position;  // where their samplers stand
  std::vector<std::uint64_t> dealings;
  std::int64_t begun = 0;  // steps done before this part of the run
  std::vector<Loss> lost;
  std::vector<Passage> joined, left;
  TimeBudget::State budget;
  double seconds = 0;             // of training, so far
  std::vector<std::byte> scaler;  // of losses; empty: none, or not told
};

// As text. decode_welcome: Error when it is none.
std::string encode(const Welcome& welcome);
Welcome decode_welcome(std::string_view text);

// Told when the data was first dealt among the members of that view, by any of them.
void tell_welcome(const engine::WorldParts& world, const Welcome& welcome);
// Waits for it. Error when nobody of the view is left who could tell, or within the patience.
Welcome await_welcome(const engine::WorldParts& world, const Members& view, Clock::Duration patience);

}  // namespace kith::train

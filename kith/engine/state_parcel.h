#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kith/engine/engine.h"
#include "kith/engine/roster.h"

namespace kith::engine {

// What a newcomer gets of a member's engine: everything that another worker can go on with.
struct StateParcel {
  std::int64_t steps = 0;
  Roster roster;
  Cut cut;
  // Without what is of a view. They refer to somebody else's memory.
  struct Part {
    std::string name;
    std::span<const std::byte> bytes;
  };
  std::vector<Part> parts;
  std::span<const std::byte> extra;  // of whoever uses the engine
};

std::vector<std::byte> encode(const StateParcel& parcel);
// Refers to `bytes`. Error when they are none of a parcel.
StateParcel decode_state_parcel(std::span<const std::byte> bytes);

// Fills the parts of a worker's state that the parcel has. Push-sum begins with a weight of 1: the model is
// the donor's, the weight is one's own. Error when a part is missing or has another size.
void take_parcel(const StateParcel& parcel, std::vector<StateSpan> state);

// Push-sum: the mass of a worker that leaves becomes that of its heir: with y the weights and z the models,
// z <- (y z + y' z') / (y + y'), y <- y + y'. `cut` and `types` (by segment) say what the parts hold.
void add_mass(std::span<const StateSpan> state, const StateParcel& other, const Cut& cut,
              std::span<const DType> types);

}  // namespace kith::engine

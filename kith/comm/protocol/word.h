#pragma once

#include <cstdint>

#include "kith/base/check.h"
#include "kith/base/ids.h"

namespace kith::comm::protocol {

// A version as one monotone 64-bit word: 0 is "nothing yet",
// later versions are greater. The view has 20 bits, the step 44.
using Word = std::uint64_t;

inline constexpr int kStepBits = 44;
inline constexpr Word kNothing = 0;
inline constexpr Word kEverything =
    ~Word{0};  // past every version: what a reader says that has left the window

inline Word to_word(Version v) {
  KITH_CHECK_LT(v.view, std::uint32_t{1} << (64 - kStepBits), "views of a run");
  KITH_CHECK_LT(v.step + 1, Word{1} << kStepBits, "steps of a view");
  return (static_cast<Word>(v.view) << kStepBits) + v.step + 1;
}

inline Version to_version(Word word) {
  const Word zero_based = word - 1;
  return {static_cast<std::uint32_t>(zero_based >> kStepBits), zero_based & ((Word{1} << kStepBits) - 1)};
}

}  // namespace kith::comm::protocol

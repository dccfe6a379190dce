#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kith/optim/options.h"

namespace kith::optim {

// What there is to say about a method beside its code. What can be asked of the algorithm itself (state,
// channels, rounds, directed or not) is asked there.
struct Method {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view formula;  // of the next model
  // The optimizers that it is defined with: "sgd", "adam" (adam and adamw); empty: any.
  std::string_view optimizer = {};
  bool takes_rounds = false;                                                       // MethodOptions::rounds
  bool takes_order = false;                                                        // MethodOptions::order
  bool takes_outer = false;                                                        // MethodOptions::outer_*
  enum class Codec : std::uint8_t { none, possible, needed } codec = Codec::none;  // differences may travel
};

// Every method, in the order of the documentation.
std::span<const Method> methods();

// InputError for a name that there is not.
const Method& method_of(std::string_view name);

// Whether the method is defined with that optimizer.
bool takes(std::string_view method, std::string_view optimizer);

// InputError for numbers that the method does not read or that are out of range, and for an optimizer that it
// is not defined with. An empty optimizer is somebody else's.
void validate(std::string_view name, const MethodOptions& options, std::string_view optimizer);

// InputError for a codec (kith/kernels/codec.h; empty: none) that the method does not take, or lacks, or that
// cannot converge with it.
void validate_codec(std::string_view name, std::string_view codec, double consensus_step);

}  // namespace kith::optim

#pragma once

#include <span>
#include <string_view>

#include "kith/graph/schedule.h"

namespace kith::plan {

// How long a codec's messages are (kith/kernels/codec.h), of large models; the codecs that a plan considers.
struct CodecSize {
  std::string_view name;
  double bytes_per_parameter = 4;
};
std::span<const CodecSize> codec_sizes();

// What a worker receives in a round with the codec, over what the model of the network charges it for a round
// in full: differences must reach everybody who ever reads their worker, so a message goes to all neighbours
// of the period, and a group reads every member in place of adding up on the way. InputError for a codec that
// codec_sizes() does not have. REQUIRES: an undirected schedule.
double message_share(std::string_view codec, const graph::Schedule& schedule);

}  // namespace kith::plan

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kith/comm/protocol/word.h"

namespace kith::comm::ucx {

// Between two workers on different machines travel active messages: one of the headers below, and for `data`
// a stripe of payload behind it. Plain bytes; protocol::kProtocol counts their changes too.
enum class Kind : std::uint32_t {
  data = 1,     // writer to reader: a stripe of a version's part
  past = 2,     // reader to writer: past `word`
  ask = 3,      // reader to writer: was `word` left out (scheduled)? send it or something later (latest)
  missed = 4,   // writer to reader: `word` was left out
  unnamed = 5,  // writer to reader: `word` was published, for others
  greet = 6,    // the first on every lane
};

struct Envelope {
  std::uint64_t token = 0;  // what the addressee gave the sender when they met
  std::int32_t from = -1;   // index of the sender among the workers
  Kind kind = Kind::data;
  std::uint64_t window = 0;  // the addressee's number for the window
  protocol::Word word = protocol::kNothing;
};

struct DataHeader {
  Envelope envelope;
  protocol::Word previous = protocol::kNothing;  // the version sent to this reader before
  std::uint64_t whole_bytes = 0;                 // of the payload as published
  std::uint64_t part_offset = 0;                 // the reader's part of it
  std::uint64_t part_bytes = 0;
  std::uint64_t stripe_offset = 0;  // of what travels here, in the part
  double weight = 1;
  std::int64_t published = 0;
  std::uint32_t codec = 0;
  std::uint32_t unused = 0;
};

struct Message {
  Envelope envelope;
  DataHeader data = {};  // meaningful where the kind is `data`
};

// What a peer sent may be anything: nothing when it is not such a header.
std::optional<Message> parse_message(std::span<const std::byte> bytes);

}  // namespace kith::comm::ucx

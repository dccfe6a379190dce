#include "kith/comm/ucx/message.h"

#include <cstring>

namespace kith::comm::ucx {
namespace {

bool is_known(Kind kind) {
  switch (kind) {
    case Kind::data:
    case Kind::past:
    case Kind::ask:
    case Kind::missed:
    case Kind::unnamed:
    case Kind::greet:
      return true;
  }
  return false;
}

}  // namespace

std::optional<Message> parse_message(std::span<const std::byte> bytes) {
  Message message;
  if (bytes.size() < sizeof message.envelope) return std::nullopt;
  std::memcpy(&message.envelope, bytes.data(), sizeof message.envelope);
  if (!is_known(message.envelope.kind)) return std::nullopt;
  const bool data = message.envelope.kind == Kind::data;
  if (bytes.size() != (data ? sizeof message.data : sizeof message.envelope)) return std::nullopt;
  if (data) std::memcpy(&message.data, bytes.data(), sizeof message.data);
  return message;
}

}  // namespace kith::comm::ucx

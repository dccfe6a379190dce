#include "kith/comm/ucx/lifeline_message.h"

#include <array>
#include <cstring>

#include "kith/base/sha256.h"

namespace kith::comm::ucx {
namespace {

// A message is one of these letters and what belongs to it.
constexpr char kGreeting = 'h';
constexpr char kWindowOpened = 'w';
constexpr char kBeat = 'b';
constexpr char kFarewell = 'f';
constexpr char kFarewellHeard = 'a';

// UCX reads an address without knowing its length: a damaged one must not reach it.
using Digest = std::array<char, 32>;

template <class T>
std::string to_bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Takes the value off the front; false when there are too few bytes.
template <class T>
bool take(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}

struct Encode {
  std::string operator()(const Greeting& m) const {
    return kGreeting + to_bytes(m.hello) + sha256(m.address) + m.address;
  }
  std::string operator()(const WindowOpened& m) const {
    return kWindowOpened + to_bytes(m.head) + to_bytes(m.number) + m.name;
  }
  std::string operator()(const Beat&) const { return {kBeat}; }
  std::string operator()(const Farewell& m) const { return kFarewell + to_bytes(m.stripes); }
  std::string operator()(const FarewellHeard&) const { return {kFarewellHeard}; }
};

}  // namespace

std::string encode(const LifelineMessage& message) {
  return std::visit(Encode{}, message);
}

std::optional<LifelineMessage> parse_lifeline(std::string_view bytes) {
  char letter = 0;
  if (!take(bytes, letter)) return std::nullopt;
  switch (letter) {
    case kGreeting: {
      Greeting greeting;
      Digest digest;
      if (!take(bytes, greeting.hello)) return std::nullopt;
      if (greeting.hello.protocol != protocol::kProtocol) return greeting;  // what follows may mean anything
      if (!take(bytes, digest)) return std::nullopt;
      greeting.address = bytes;
      if (sha256(greeting.address) != std::string_view(digest.data(), digest.size())) return std::nullopt;
      return greeting;
    }
    case kWindowOpened: {
      WindowOpened opened;
      if (!take(bytes, opened.head) || !take(bytes, opened.number)) return std::nullopt;
      opened.name = bytes;
      return opened;
    }
    case kBeat:
      return Beat{};
    case kFarewell: {
      Farewell farewell;
      if (!take(bytes, farewell.stripes)) return std::nullopt;
      return farewell;
    }
    case kFarewellHeard:
      return FarewellHeard{};
    default:
      return std::nullopt;
  }
}

}  // namespace kith::comm::ucx

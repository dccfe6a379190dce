#include "kith/launch/parcel.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/window.h"

namespace kith::launch {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;
constexpr std::size_t kMost = std::size_t{1} << 46;  // more than any machine has

// Version 0 says how many bytes there are, and those that follow hold them. Then the receiver answers.
std::unique_ptr<comm::Window> open(comm::Transport& transport, const ParcelOptions& options, WorkerId other) {
  comm::WindowOptions window;
  window.name = options.name;
  window.bytes = kPiece;
  window.peers = {other};
  window.cancellation = options.cancellation;
  return transport.open(window, options.deadline);
}

std::string place_of(const ParcelOptions& options) {
  return cat(options.name, " from ", options.from, " to ", options.to);
}

void publish(comm::Window& window, std::uint64_t number, std::span<const std::byte> piece,
             const ParcelOptions& options, WorkerId reader) {
  auto slot = window.begin({0, number}, options.deadline);
  if (std::holds_alternative<comm::Late>(slot))
    throw Error(cat(reader, " does not take what it is sent"), place_of(options));
  std::memcpy(std::get<0>(slot).data(), piece.data(), piece.size());
  comm::PublishOptions publication;
  publication.bytes = piece.size();
  publication.readers = {reader};
  window.publish({0, number}, publication);
}

comm::Arrival await(comm::Window& window, std::uint64_t number, const ParcelOptions& options,
                    WorkerId writer) {
  comm::Outcome outcome = window.await(writer, {0, number}, options.deadline);
  if (auto* arrival = std::get_if<comm::Arrival>(&outcome)) return std::move(*arrival);
  const bool lost = std::holds_alternative<comm::Lost>(outcome);
  throw Error(cat(writer, lost ? " is gone" : " has not sent the rest"), place_of(options));
}

}  // namespace

void send_parcel(comm::Transport& transport, const ParcelOptions& options, std::span<const std::byte> bytes) {
  KITH_CHECK(transport.self() == options.from, "a parcel is sent by its sender");
  const auto window = open(transport, options, options.to);
  const std::uint64_t total = bytes.size();
  publish(*window, 0, std::as_bytes(std::span(&total, 1)), options, options.to);
  std::uint64_t number = 1;
  for (std::size_t first = 0; first < bytes.size(); first += kPiece, ++number) {
    if (transport.lost(options.to)) throw Error(cat(options.to, " is gone"), place_of(options));
    publish(*window, number, bytes.subspan(first, std::min(kPiece, bytes.size() - first)), options,
            options.to);
  }
  await(*window, 0, options, options.to);
}

std::vector<std::byte> receive_parcel(comm::Transport& transport, const ParcelOptions& options) {
  KITH_CHECK(transport.self() == options.to, "a parcel is received by its receiver");
  const auto window = open(transport, options, options.from);
  std::uint64_t total = 0;
  {
    const comm::Arrival first = await(*window, 0, options, options.from);
    if (first.data().size() != sizeof total) throw Error("it has no length", place_of(options));
    std::memcpy(&total, first.data().data(), sizeof total);
  }
  if (total > kMost) throw Error(cat("it is said to have ", total, " bytes"), place_of(options));
  std::vector<std::byte> bytes;
  for (std::uint64_t number = 1; bytes.size() < total; ++number) {
    const comm::Arrival piece = await(*window, number, options, options.from);
    if (piece.data().empty() || piece.data().size() > total - bytes.size())
      throw Error(cat("piece ", number, " has ", piece.data().size(), " bytes"), place_of(options));
    bytes.insert(bytes.end(), piece.data().begin(), piece.data().end());
  }
  const std::byte thanks{};
  publish(*window, 0, {&thanks, 1}, options, options.from);
  return bytes;
}

}  // namespace kith::launch

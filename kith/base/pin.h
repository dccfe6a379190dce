#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace kith {

// Readies a block of host memory for copies to and from a device: they reach it without a detour, and go on
// while the host does something else, as long as what this returns is kept. Null where there is nothing to
// undo. Safe from any thread; copies of it may outlive the device. REQUIRES: no page of the block belongs to
// another one. Empty: no device copies from here.
using PinMemory = std::function<std::shared_ptr<const void>(std::span<std::byte>)>;

// What blocks begin at and end with, so that they share no page.
inline constexpr std::size_t kPinPage = 4096;
constexpr std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPinPage - 1) / kPinPage * kPinPage;
}

// Keeps `memory` and a pin of `bytes` in it; the pin goes first.
inline std::shared_ptr<const void> pinned(std::shared_ptr<const void> memory, std::span<std::byte> bytes,
                                          const PinMemory& pin) {
  if (!pin) return memory;
  using Held = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  return std::make_shared<Held>(std::move(memory), pin(bytes));
}

}  // namespace kith

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kith::train {

// CRC-64/XZ (ECMA-182, reflected): the checksum of "123456789" is 995dc9bbdf1939fa.
// `before` is the checksum of what precedes the bytes, 0 at the beginning.
std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t before = 0);

}  // namespace kith::train

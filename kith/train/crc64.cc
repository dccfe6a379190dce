#include "kith/train/crc64.h"

#include <array>
#include <cstring>

namespace kith::train {
namespace {

constexpr std::uint64_t kPolynomial = 0xc96c5795d7870f42ULL;

using Table = std::array<std::uint64_t, 256>;

// Table k advances a byte that lies k bytes before the end of a word, so that eight bytes take one round.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint64_t byte = 0; byte < 256; ++byte) {
    std::uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint64_t crc = tables[k - 1][byte];
      tables[k][byte] = tables[0][crc & 0xff] ^ (crc >> 8);
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

}  // namespace

std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t before) {
  std::uint64_t crc = ~before;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k)
      crc ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (std::byte byte : bytes)
    crc = kTables[0][(crc ^ static_cast<std::uint64_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace kith::train

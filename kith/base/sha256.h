#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace kith {

// SHA-256 (FIPS 180-4). As a string of 32 bytes, since digests travel in messages.
class Sha256 {
 public:
  Sha256();
  void update(std::string_view bytes);
  // REQUIRES: called once, last.
  std::string finish();

 private:
  void compress(const unsigned char* block);

  std::array<std::uint32_t, 8> state_;
  std::array<unsigned char, 64> block_{};
  std::size_t filled_ = 0;
  std::uint64_t length_ = 0;
};

std::string sha256(std::string_view bytes);

// HMAC-SHA-256 (RFC 2104).
std::string hmac_sha256(std::string_view key, std::string_view message);

// Takes the same time wherever the two differ; they may differ in length, which is no secret.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// From the kernel's generator. Error when it fails.
std::string random_bytes(std::size_t count);

// "0a1b".
std::string hex(std::string_view bytes);

}  // namespace kith

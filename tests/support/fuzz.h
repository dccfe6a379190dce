#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"

namespace kith::support {

// Something that takes bytes from a peer, and messages that it takes. kith::Error is its way to refuse;
// whatever else it throws, and whatever a sanitizer says, is a failure.
struct Parser {
  std::string name;
  std::vector<std::string> valid;
  std::function<void(const std::string& message)> take;
};

inline std::ostream& operator<<(std::ostream& out, const Parser& parser) {
  return out << parser.name;
}

// Messages that no honest peer sends: damaged ones, and noise. The same for the same seed.
class Fuzz {
 public:
  Fuzz(std::vector<std::string> valid, std::uint64_t seed) : valid_(std::move(valid)), random_(seed) {}

  std::string next() {
    if (below(8) == 0) return noise(below(96));
    std::string message = valid_[below(valid_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes)
      damage(message);
    return message;
  }

 private:
  std::size_t below(std::size_t n) { return random_.below(n); }

  std::string noise(std::size_t bytes) {
    std::string text(bytes, '\0');
    for (char& c : text)
      c = static_cast<char>(random_.next());
    return text;
  }

  // An integer of some width becomes one at the edge of what it holds.
  void write_edge(std::string& message) {
    constexpr std::array<std::uint64_t, 9> kEdges{
        0, 1, 0x7f, 0x80, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0xffffffffffffffff};
    const std::size_t width = std::size_t{1} << below(4);
    if (message.size() < width) return;
    const std::size_t at = below(message.size() - width + 1);
    const std::uint64_t edge = kEdges[below(kEdges.size())];
    for (std::size_t i = 0; i < width; ++i)
      message[at + i] = static_cast<char>(edge >> (8 * i));
  }

  void damage(std::string& message) {
    switch (below(6)) {
      case 0:
        message.resize(below(message.size() + 1));
        return;
      case 1:
        message.insert(below(message.size() + 1), noise(1 + below(8)));
        return;
      case 2:
        message.erase(below(message.size() + 1), 1 + below(8));
        return;
      case 3:
        if (!message.empty()) message[below(message.size())] ^= static_cast<char>(1U << below(8));
        return;
      case 4: {
        const std::string& other = valid_[below(valid_.size())];
        message = message.substr(0, below(message.size() + 1)) + other.substr(below(other.size() + 1));
        return;
      }
      default:
        write_edge(message);
    }
  }

  const std::vector<std::string> valid_;
  Rng random_;
};

// Everything valid, every beginning of it, and `count` damaged ones.
inline void fuzz(const Parser& parser, int count, std::uint64_t seed) {
  const auto take = [&](const std::string& message) {
    try {
      parser.take(message);
    } catch (const Error&) {
    }
  };
  std::string last;
  try {
    for (const std::string& message : parser.valid) {
      for (std::size_t bytes = 0; bytes <= message.size(); ++bytes)
        take(last = message.substr(0, bytes));
    }
    Fuzz damaged(parser.valid, seed);
    for (int i = 0; i < count; ++i)
      take(last = damaged.next());
  } catch (const std::exception& error) {
    std::string bytes;
    for (const char c : last)
      bytes += cat(static_cast<int>(static_cast<unsigned char>(c)), " ");
    FAIL() << parser.name << ", seed " << seed << ": " << error.what() << "\nafter " << last.size()
           << " bytes: " << bytes;
  }
}

constexpr int kFuzzInputs = 10'000;

}  // namespace kith::support

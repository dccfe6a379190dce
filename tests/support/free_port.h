#pragma once

#include <cstdint>

#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/comm/net/connection.h"

namespace kith::support {

// A port of the loopback that nobody listens on, and neither on the next one. Below those that the kernel
// gives to connections, so that other tests do not get it in between; where one begins to look differs from
// process to process.
inline std::uint16_t free_port() {
  constexpr std::uint16_t kFirst = 20'000, kPorts = 12'000;
  const auto listens = [](std::uint64_t port) {
    comm::net::ListenOptions options;
    options.at = {"127.0.0.1", static_cast<std::uint16_t>(port)};
    const comm::net::Listener listener(options);
  };
  static std::uint64_t next = hash_words(::getpid());
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::uint64_t port = kFirst + (next += 2) % kPorts;
    try {
      listens(port);
      listens(port + 1);
      return static_cast<std::uint16_t>(port);
    } catch (const std::exception&) {
      continue;  // somebody listens there
    }
  }
  throw Error("100 ports are in use", "127.0.0.1");
}

}  // namespace kith::support

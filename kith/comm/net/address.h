#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace kith::comm::net {

// A host by name or number, and a TCP port.
struct Address {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(const Address&) const = default;
};

// "host:29501", "[fd00::2]:29501".
std::string text_of(const Address& address);

// InputError naming `place` when the text is not HOST:PORT with a port from 1 to 65535.
Address parse_address(std::string_view text, std::string_view place);

// InputError naming `place` when the text is no port from 1 to 65535.
std::uint16_t parse_port(std::string_view text, std::string_view place);

// An address as the kernel takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool loopback() const;
  Address readable() const;
};

// All addresses of a host, in the resolver's order. InputError when there is none.
std::vector<SocketAddress> resolve(const Address& address);

// The address of a network interface ("eth0", "ib0"), IPv4 before IPv6, with that port. InputError when this
// machine has no such interface (names those that it has) or the interface has no address.
SocketAddress address_of_interface(const std::string& interface, std::uint16_t port);

}  // namespace kith::comm::net

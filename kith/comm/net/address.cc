#include "kith/comm/net/address.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::comm::net {
namespace {

SocketAddress copy_of(const sockaddr* address, socklen_t size) {
  SocketAddress copy;
  std::memcpy(&copy.storage, address, size);
  copy.size = size;
  return copy;
}

void set_port(SocketAddress& address, std::uint16_t port) {
  if (address.family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(port);
  }
}

}  // namespace

std::string text_of(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? cat("[", address.host, "]:", address.port) : cat(address.host, ":", address.port);
}

std::uint16_t parse_port(std::string_view text, std::string_view place) {
  std::uint16_t port = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (status != std::errc{} || end != text.data() + text.size() || port == 0) {
    throw InputError(cat("'", text, "' is not a port"), place, "a number from 1 to 65535");
  }
  return port;
}

Address parse_address(std::string_view text, std::string_view place) {
  const auto colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool ambiguous = !bracketed && host.find(':') != std::string_view::npos;
  if (colon == std::string_view::npos || host.empty() || ambiguous) {
    throw InputError(cat("'", text, "' is not HOST:PORT"), place,
                     "for example node1:29501, 10.0.0.1:29501 or [fd00::2]:29501");
  }
  return {std::string(host), parse_port(text.substr(colon + 1), cat(place, ": '", text, "'"))};
}

bool SocketAddress::loopback() const {
  if (family() == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  }
  return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24) == 127;
}

Address SocketAddress::readable() const {
  char host[INET6_ADDRSTRLEN] = "?";
  std::uint16_t port = 0;
  if (family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
    port = ntohs(v6->sin6_port);
  } else {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    ::inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
    port = ntohs(v4->sin_port);
  }
  return {host, port};
}

std::vector<SocketAddress> resolve(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failure != 0) {
    throw InputError(cat("cannot find host '", address.host, "': ", ::gai_strerror(failure)),
                     text_of(address), "check the name, or give the address in numbers");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next)
    addresses.push_back(copy_of(entry->ai_addr, entry->ai_addrlen));
  return addresses;
}

SocketAddress address_of_interface(const std::string& interface, std::uint16_t port) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) throw Error("cannot list the network interfaces", "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(found, ::freeifaddrs);
  std::vector<std::string> names;
  std::optional<SocketAddress> v4, v6;
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    if (std::ranges::find(names, entry->ifa_name) == names.end()) names.emplace_back(entry->ifa_name);
    if (interface != entry->ifa_name || entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET && !v4) v4 = copy_of(entry->ifa_addr, sizeof(sockaddr_in));
    if (family == AF_INET6 && !v6) v6 = copy_of(entry->ifa_addr, sizeof(sockaddr_in6));
  }
  if (std::ranges::find(names, interface) == names.end()) {
    throw InputError("there is no such network interface here", cat("interface '", interface, "'"),
                     cat("one of: ", join(names)));
  }
  if (!v4 && !v6) {
    throw InputError("has no address", cat("interface '", interface, "'"), "name one that is configured");
  }
  SocketAddress address = v4 ? *v4 : *v6;
  set_port(address, port);
  return address;
}

}  // namespace kith::comm::net

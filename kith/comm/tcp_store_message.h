#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kith::comm::tcp_store {

// What a client asks; one request at a time on a connection, each gets one answer.
//   request   operation, four bytes of the key's length (little-endian), key, argument
//   answer    status, then the value or the error's text
enum class Operation : char { set = 's', get = 'g', wait = 'w', add = 'a', set_once = 'o' };
enum class Status : char { value = 'v', nothing = 'n', error = 'e' };

struct Request {
  Operation operation;
  std::string key;
  std::string argument;  // set, set_once: the value; add: the delta; wait: how long, in milliseconds
};

std::string encode(const Request& request);
// Error when it is malformed.
Request decode(std::string_view message);

}  // namespace kith::comm::tcp_store

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kith::comm::tcp_store {

// What a client asks; one request at a time on a connection, each gets one answer. A will is carried
// out, its value put on the list that is its key, when the connection ends; one for the empty key withdraws
// it.
//   request   operation, four bytes of the key's length (little-endian), key, argument
//   answer    status, then the value or the error's text
enum class Operation : char { set = 's', get = 'g', wait = 'w', add = 'a', set_once = 'o', will = 'l' };
enum class Status : char { value = 'v', nothing = 'n', error = 'e' };

struct Request {
  Operation operation = Operation::get;
  std::string key;
  std::string argument = {};  // set, set_once, will: the value
  std::int64_t number = 0;    // add: the delta; wait: how long, in milliseconds

  bool operator==(const Request&) const = default;
};

struct Answer {
  Status status = Status::nothing;
  std::string text = {};  // the value, or what is wrong
};

std::string encode(const Request& request);
std::string encode(const Answer& answer);

// What a peer sent may be anything: nothing when it is not such a message.
std::optional<Request> parse_request(std::string_view message);
std::optional<Answer> parse_answer(std::string_view message);

}  // namespace kith::comm::tcp_store

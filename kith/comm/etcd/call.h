#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kith/comm/net/connection.h"

namespace kith::comm::etcd {

// One HTTP/1.1 POST of JSON on a connection of its own, whose answer is read as it comes. Every wait is
// bounded by its limit. Error naming the server when it cannot be reached, is cut off or says what is not
// HTTP. One thread at a time.
class Call {
 public:
  Call(const net::Address& to, const std::string& interface, std::string_view path, std::string_view body,
       const net::Limit& limit);

  // Waits for the head of the answer.
  int status(const net::Limit& limit);
  // All of the answer's body.
  std::string body(const net::Limit& limit);
  // The next line of a body that goes on; nothing when it has ended or the limit is reached.
  std::optional<std::string> line(const net::Limit& limit);

 private:
  // Error when the connection ends; false when the limit is reached.
  bool read_more(const net::Limit& limit);
  // Moves what has come of the body from raw_ to body_.
  void decode();
  bool head_complete();
  [[noreturn]] void fail(std::string_view reason) const;

  const std::string server_;
  net::Connection connection_;
  std::string raw_;   // as it came, not yet decoded
  std::string body_;  // decoded, not yet taken
  int status_ = 0;    // 0 until the head is complete
  bool chunked_ = false;
  std::size_t left_ = 0;  // of the chunk, or of the body
  bool over_ = false;     // the body is complete
};

}  // namespace kith::comm::etcd

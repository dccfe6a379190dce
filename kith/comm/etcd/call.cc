#include "kith/comm/etcd/call.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::comm::etcd {
namespace {

constexpr auto kSilence = std::chrono::seconds(4);  // of the server's machine
constexpr std::size_t kMostHead = 16384;
constexpr std::size_t kMostBody = std::size_t{64} << 20;
constexpr std::string_view kLineEnd = "\r\n";

std::string lower(std::string_view text) {
  std::string low(text);
  std::ranges::transform(low, low.begin(), [](unsigned char c) { return std::tolower(c); });
  return low;
}

std::optional<std::size_t> number(std::string_view text, int base) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::size_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (status != std::errc{} || end == text.data() || value > kMostBody) return std::nullopt;
  return value;
}

}  // namespace

Call::Call(const net::Address& to, const std::string& interface, std::string_view path, std::string_view body,
           const net::Limit& limit)
    : server_(net::text_of(to)),
      connection_(net::connect({.to = to, .interface = interface, .retry = net::Retry::never}, limit)) {
  connection_.lose_after(kSilence);
  const std::string request =
      cat("POST ", path, " HTTP/1.1\r\nHost: ", server_,
          "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ", body.size(),
          "\r\n\r\n", body);
  for (std::string_view rest = request; !rest.empty();) {
    const ssize_t sent = ::send(connection_.fd(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!net::wait_ready(connection_.fd(), POLLOUT, limit)) fail("does not take a request in time");
    } else if (errno != EINTR) {
      fail(std::strerror(errno));
    }
  }
}

void Call::fail(std::string_view reason) const {
  throw Error(std::string(reason), server_);
}

bool Call::read_more(const net::Limit& limit) {
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t got = ::recv(connection_.fd(), buffer.data(), buffer.size(), 0);
    if (got > 0) {
      raw_.append(buffer.data(), static_cast<std::size_t>(got));
      return true;
    }
    if (got == 0) fail("closed the connection in the middle of an answer");
    if (errno == EAGAIN) {
      if (!net::wait_ready(connection_.fd(), POLLIN, limit)) return false;
    } else if (errno != EINTR) {
      fail(std::strerror(errno));
    }
  }
}

bool Call::head_complete() {
  const auto end = raw_.find("\r\n\r\n");
  if (end == std::string::npos) {
    if (raw_.size() > kMostHead) fail("does not speak HTTP");
    return false;
  }
  const std::string head = lower(raw_.substr(0, end + kLineEnd.size()));
  raw_.erase(0, end + 2 * kLineEnd.size());
  const auto status = head.starts_with("http/1.") && head.size() > 12
                          ? number(std::string_view(head).substr(9, 3), 10)
                          : std::nullopt;
  if (!status || *status == 0) fail("does not speak HTTP");
  chunked_ = head.find("\r\ntransfer-encoding: chunked\r\n") != std::string::npos;
  constexpr std::string_view kLength = "\r\ncontent-length:";
  if (!chunked_) {
    const auto at = head.find(kLength);
    const auto length = at == std::string::npos
                            ? std::nullopt
                            : number(std::string_view(head).substr(at + kLength.size()), 10);
    if (!length) fail("does not say how long its answer is");
    left_ = *length;
    over_ = left_ == 0;
  }
  status_ = static_cast<int>(*status);
  decode();
  return true;
}

void Call::decode() {
  while (!over_) {
    if (chunked_ && left_ == 0) {
      const auto end = raw_.find(kLineEnd);
      if (end == std::string::npos) return;
      const auto size = number(std::string_view(raw_).substr(0, end), 16);
      if (!size) fail("sends a chunk without a length");
      raw_.erase(0, end + kLineEnd.size());
      over_ = *size == 0;
      left_ = *size + (over_ ? 0 : kLineEnd.size());  // a chunk ends with a line's end
      continue;
    }
    // The end of a line after a chunk is not of the body.
    const std::size_t frame = chunked_ ? kLineEnd.size() : 0;
    const std::size_t take = std::min(raw_.size(), left_ > frame ? left_ - frame : 0);
    body_.append(raw_, 0, take);
    raw_.erase(0, take);
    left_ -= take;
    if (left_ > frame) return;
    if (raw_.size() < left_) return;
    raw_.erase(0, left_);
    left_ = 0;
    over_ = !chunked_;
    if (body_.size() > kMostBody) fail("sends more than can be taken");
  }
}

int Call::status(const net::Limit& limit) {
  while (status_ == 0 && !head_complete())
    if (!read_more(limit)) fail("does not answer in time");
  return status_;
}

std::string Call::body(const net::Limit& limit) {
  status(limit);
  for (; !over_; decode())
    if (!read_more(limit)) fail("does not answer in time");
  return std::exchange(body_, {});
}

std::optional<std::string> Call::line(const net::Limit& limit) {
  for (;;) {
    if (const auto end = body_.find('\n'); end != std::string::npos) {
      std::string line = body_.substr(0, end);
      body_.erase(0, end + 1);
      return line;
    }
    if (over_) return std::nullopt;
    if (!read_more(limit)) return std::nullopt;
    if (status_ != 0 || head_complete()) decode();
  }
}

}  // namespace kith::comm::etcd

#include "kith/comm/tcp_store_message.h"

#include <charconv>

#include "kith/base/text.h"

namespace kith::comm::tcp_store {
namespace {

constexpr std::size_t kFixed = 5;  // of a request, before the key

bool has_number(Operation operation) {
  return operation == Operation::add || operation == Operation::wait;
}

std::optional<Operation> parse_operation(char letter) {
  const auto operation = static_cast<Operation>(letter);
  switch (operation) {
    case Operation::set:
    case Operation::get:
    case Operation::wait:
    case Operation::add:
    case Operation::set_once:
    case Operation::will:
      return operation;
  }
  return std::nullopt;
}

std::optional<Status> parse_status(char letter) {
  const auto status = static_cast<Status>(letter);
  switch (status) {
    case Status::value:
    case Status::nothing:
    case Status::error:
      return status;
  }
  return std::nullopt;
}

}  // namespace

std::string encode(const Request& request) {
  std::string message{static_cast<char>(request.operation)};
  for (std::size_t i = 0; i + 1 < kFixed; ++i)
    message += static_cast<char>(request.key.size() >> (8 * i));
  return message + request.key +
         (has_number(request.operation) ? std::to_string(request.number) : request.argument);
}

std::string encode(const Answer& answer) {
  return cat(static_cast<char>(answer.status), answer.text);
}

std::optional<Request> parse_request(std::string_view message) {
  if (message.size() < kFixed) return std::nullopt;
  const auto operation = parse_operation(message[0]);
  std::size_t length = 0;
  for (std::size_t i = 1; i < kFixed; ++i)
    length |= std::size_t{static_cast<unsigned char>(message[i])} << (8 * (i - 1));
  if (!operation || length > message.size() - kFixed) return std::nullopt;
  Request request{*operation, std::string(message.substr(kFixed, length))};
  const std::string_view rest = message.substr(kFixed + length);
  if (has_number(*operation)) {
    const char* const end = rest.data() + rest.size();
    const auto [stop, status] = std::from_chars(rest.data(), end, request.number);
    if (status != std::errc{} || stop != end) return std::nullopt;
  } else {
    request.argument = rest;
  }
  return request;
}

std::optional<Answer> parse_answer(std::string_view message) {
  const auto status = message.empty() ? std::nullopt : parse_status(message[0]);
  if (!status) return std::nullopt;
  return Answer{*status, std::string(message.substr(1))};
}

}  // namespace kith::comm::tcp_store

#pragma once

#include <string>

namespace kith::support {

// What went wrong, or "" when nothing did.
template <class Failure, class Body>
std::string failure_of(Body&& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return {};
}

}  // namespace kith::support

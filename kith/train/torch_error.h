#pragma once

#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "kith/base/error.h"

namespace kith::train {

// Runs `body`, whose result it returns. An error of LibTorch, which brings pages of its stack along, becomes
// an Error of one line.
template <class Body>
auto with_short_errors(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw Error(text.substr(0, text.find('\n')), "LibTorch",
                text.find("memory") == std::string::npos ? "" : "a smaller model or batch, or fewer workers");
  }
}

}  // namespace kith::train

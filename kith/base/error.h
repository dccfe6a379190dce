#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace kith {

// Three kinds of failure (docs/errors.md):
//   a bug                KITH_CHECK (base/check.h): prints both operands
//   the environment      Error, or InputError when the user can mend it: names value, place and remedy
//   a lost or slow peer  a value (comm::Outcome), never an exception
//
// Nothing in a library calls exit; the command line maps InputError to exit code 2 and the rest to 1.
class Error : public std::runtime_error {
 public:
  // "PLACE: PROBLEM (REMEDY)"; `place` and `remedy` may be empty. `problem` should hold the offending value.
  explicit Error(std::string_view problem, std::string_view place = {}, std::string_view remedy = {});
};

// Bad input: a flag, a config key, a file's contents, an environment variable, a peer that runs another
// setup.
class InputError : public Error {
 public:
  using Error::Error;
};

}  // namespace kith

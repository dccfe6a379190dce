#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "kith/base/text.h"

namespace kith {

// A broken invariant inside kith: the caller's program is wrong, not its environment.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void report_bug(const char* file, int line, std::string_view condition, std::string_view detail);

// KITH_CHECK_EQ(a, b, "why") throws Bug with both operands when they differ. Operands are evaluated once.
#define KITH_CHECK_OP_(a, op, b, why)                                                             \
  do {                                                                                            \
    const auto& kith_a_ = (a);                                                                    \
    const auto& kith_b_ = (b);                                                                    \
    if (!(kith_a_ op kith_b_))                                                                    \
      ::kith::report_bug(                                                                         \
          __FILE__, __LINE__, #a " " #op " " #b,                                                  \
          ::kith::cat(kith_a_, " vs ", kith_b_, std::string_view(why).empty() ? "" : ": ", why)); \
  } while (false)

#define KITH_CHECK_EQ(a, b, why) KITH_CHECK_OP_(a, ==, b, why)
#define KITH_CHECK_LT(a, b, why) KITH_CHECK_OP_(a, <, b, why)
#define KITH_CHECK_LE(a, b, why) KITH_CHECK_OP_(a, <=, b, why)
#define KITH_CHECK_GE(a, b, why) KITH_CHECK_OP_(a, >=, b, why)
#define KITH_CHECK(condition, why)                                             \
  do {                                                                         \
    if (!(condition)) ::kith::report_bug(__FILE__, __LINE__, #condition, why); \
  } while (false)

}  // namespace kith

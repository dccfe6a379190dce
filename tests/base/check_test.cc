#include "kith/base/check.h"

#include <gtest/gtest.h>

namespace kith {
namespace {

TEST(Check, NamesBothOperands) {
  try {
    KITH_CHECK_EQ(2 + 2, 5, "arithmetic");
    FAIL();
  } catch (const Bug& bug) {
    const std::string text = bug.what();
    EXPECT_NE(text.find("2 + 2 == 5"), std::string::npos) << text;
    EXPECT_NE(text.find("4 vs 5: arithmetic"), std::string::npos) << text;
  }
}

TEST(Check, EvaluatesOperandsOnce) {
  int calls = 0;
  KITH_CHECK_LE(++calls, 1, "");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace kith

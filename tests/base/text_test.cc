#include "kith/base/text.h"

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/shortened.h"

namespace kith {
namespace {

TEST(Text, ParsesSizes) {
  EXPECT_EQ(parse_bytes("25MB", "--size"), 25'000'000);
  EXPECT_EQ(parse_bytes("25MiB", "--size"), 25 * 1048576);
  EXPECT_EQ(parse_bytes("1.5k", "--size"), 1500);
  EXPECT_EQ(parse_bytes("7", "--size"), 7);
}

TEST(Text, BadSizeNamesValuePlaceAndRemedy) {
  for (const char* bad : {"", "x", "-1", "5 apples", "1e99G", "nan", "inf"}) {
    try {
      parse_bytes(bad, "--size");
      FAIL() << bad;
    } catch (const InputError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("--size"), std::string::npos) << text;
      EXPECT_NE(text.find(std::string("'") + bad + "'"), std::string::npos) << text;
      EXPECT_NE(text.find("for example"), std::string::npos) << text;
    }
  }
}

TEST(Text, SuggestsTheNearestWord) {
  const std::vector<std::string> words{"complete", "ring", "exp"};
  EXPECT_EQ(nearest("compleet", words), "complete");
  EXPECT_EQ(nearest("rnig", words), "ring") << "two letters swapped";
  EXPECT_EQ(nearest("gnir", words), "");
  EXPECT_EQ(nearest("rin", words), "ring");
  EXPECT_EQ(suggest("zebra", words), "one of: complete, ring, exp");
}

TEST(Text, ShowsTheBeginningAndTheEndOfWhatIsLong) {
  EXPECT_EQ(shortened("0123456789", 10), "0123456789");
  EXPECT_EQ(shortened(std::string(20, 'a') + "z", 8), "aaaaaa... (21 characters) ...az");
}

TEST(Error, DoesNotEchoMegabytes) {
  const std::string long_text(5 << 20, 'x');
  EXPECT_LT(std::string(InputError(long_text, long_text, "remedy").what()).size(), 3000u);
  EXPECT_EQ(nearest(long_text, std::vector<std::string>{"xyz"}), "");
}

TEST(Text, HumanBytes) {
  EXPECT_EQ(human_bytes(12), "12 B");
  EXPECT_EQ(human_bytes(26214400), "25.0 MiB");
}

TEST(Text, Splits) {
  EXPECT_EQ(split("4,4,2", ','), (std::vector<std::string>{"4", "4", "2"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

}  // namespace
}  // namespace kith

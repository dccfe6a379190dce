#include "kith/plan/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"

namespace kith::plan {
namespace {

TEST(Units, Seconds) {
  EXPECT_DOUBLE_EQ(parse_seconds("3.1ms", "here"), 3.1e-3);
  EXPECT_DOUBLE_EQ(parse_seconds("20 us", "here"), 20e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("2s", "here"), 2);
  EXPECT_DOUBLE_EQ(parse_seconds("80ns", "here"), 80e-9);
}

TEST(Units, Rates) {
  EXPECT_DOUBLE_EQ(parse_bytes_per_s("25gbit", "here"), 3.125e9);
  EXPECT_DOUBLE_EQ(parse_bytes_per_s("100 Gbit/s", "here"), 12.5e9);
  EXPECT_DOUBLE_EQ(parse_bytes_per_s("12GB/s", "here"), 12e9);
  EXPECT_DOUBLE_EQ(parse_bytes_per_s("1 GiB/s", "here"), 1073741824.0);
}

TEST(Units, NonsenseIsNamed) {
  for (const char* text : {"", "ms", "3", "3 parsecs", "-1ms", "nanms", "infms", "1e999ms"}) {
    try {
      parse_seconds(text, "forward");
      ADD_FAILURE() << "took '" << text << "'";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("forward")) << text;
      EXPECT_THAT(error.what(), testing::HasSubstr(text)) << text;
    }
  }
  EXPECT_THROW(parse_bytes_per_s("25ghz", "nic"), InputError);
  EXPECT_THROW(parse_bytes_per_s("25GB", "nic"), InputError);
  EXPECT_THROW(parse_bytes_per_s("-25gbit", "nic"), InputError);
}

TEST(Units, Human) {
  EXPECT_EQ(human_seconds(0.0031), "3.1 ms");
  EXPECT_EQ(human_seconds(2e-5), "20 us");
  EXPECT_EQ(human_rate(3.125e9), "25 Gbit/s");
  EXPECT_EQ(human_rate(450e9), "3.6 Tbit/s");
  EXPECT_EQ(human_rate(1.25e6), "10 Mbit/s");
}

}  // namespace
}  // namespace kith::plan

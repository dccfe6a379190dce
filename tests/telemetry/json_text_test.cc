#include "kith/telemetry/json_text.h"

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include <gtest/gtest.h>

#include "kith/base/rng.h"

namespace kith::telemetry {
namespace {

using nlohmann::json;

// What a reader finds under "value".
template <class Value>
json read_back(const Value& value) {
  std::string text;
  {
    JsonObject object(text);
    object.field("value", value);
  }
  return json::parse(text).at("value");
}

TEST(JsonObject, OddTextsComeBack) {
  std::string every_byte_of_ascii;
  for (int c = 0; c < 128; ++c)
    every_byte_of_ascii += static_cast<char>(c);
  const std::vector<std::string> texts{"",
                                       "plain",
                                       "\"",
                                       "\\",
                                       "a \"quoted\"\nname\ttab",
                                       "/",
                                       "\x7f",
                                       "für ∑ 🧮",
                                       "{\"a\":1}",
                                       every_byte_of_ascii};
  for (const std::string& text : texts)
    EXPECT_EQ(read_back(text), json(text)) << text;
  for (const std::string& name : texts) {
    std::string written;
    {
      JsonObject object(written);
      object.field(name, name);
      object.field(name + "2", 2);
    }
    EXPECT_EQ(json::parse(written), (json{{name, name}, {name + "2", 2}})) << name;
  }
}

TEST(JsonObject, BytesThatAreNotUtf8BecomeTheReplacementCharacter) {
  EXPECT_EQ(read_back(std::string("broken \xff text")), json("broken \xef\xbf\xbd text"));
  EXPECT_EQ(read_back(std::string("cut \xe2\x88")), json("cut \xef\xbf\xbd"));
}

TEST(JsonObject, NumbersComeBackAsTheSame) {
  using Integers = std::numeric_limits<std::int64_t>;
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-1}, Integers::min(), Integers::max()})
    EXPECT_EQ(read_back(number), json(number));
  EXPECT_EQ(read_back(std::numeric_limits<std::uint64_t>::max()),
            json(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(read_back(true), json(true));
  using Doubles = std::numeric_limits<double>;
  std::vector<double> numbers{0.0,
                              -0.0,
                              1.0,
                              -1500.0,
                              0.1,
                              1e15,
                              1e16,
                              1e21,
                              1e22,
                              1e-7,
                              123456789.0,
                              Doubles::min(),
                              Doubles::max(),
                              Doubles::denorm_min()};
  Rng rng(7);
  for (int k = 0; k < 1000; ++k)
    numbers.push_back(std::bit_cast<double>(rng.next()));
  for (const double number : numbers) {
    const json found = read_back(number);
    if (!std::isfinite(number)) continue;
    ASSERT_TRUE(found.is_number_float()) << found << ": readers may tell integers from other numbers";
    EXPECT_EQ(std::bit_cast<std::uint64_t>(found.get<double>()), std::bit_cast<std::uint64_t>(number));
  }
}

TEST(JsonObject, NumbersThatJsonLacksAreNull) {
  for (const double number : {std::nan(""), HUGE_VAL, -HUGE_VAL})
    EXPECT_TRUE(read_back(number).is_null());
}

TEST(JsonObject, DurationsAreMicrosecondsToTheNanosecond) {
  const std::vector<std::int64_t> all{0, 1, 10, 999, 1000, 1001, -1, -2500, 1'700'000'000'123'456'789};
  for (const std::int64_t ns : all) {
    EXPECT_EQ(read_back(Clock::Duration(ns)).get<double>(), static_cast<double>(ns) / 1000) << ns;
  }
}

TEST(JsonObject, HoldsObjects) {
  std::string text;
  {
    JsonObject object(text);
    object.field("args", Args{{"bytes", std::int64_t{3}}, {"x", 0.5}, {"who \"", std::string("w\n")}});
    object.field("nothing", Args{});
    {
      JsonObject inner(object.key("inner"));
      JsonObject(inner.key("empty"));
    }
    object.field("counts", std::vector<std::pair<std::string, std::int64_t>>{{"late", -4}});
  }
  EXPECT_EQ(json::parse(text), (json{{"args", {{"bytes", 3}, {"x", 0.5}, {"who \"", "w\n"}}},
                                     {"nothing", json::object()},
                                     {"inner", {{"empty", json::object()}}},
                                     {"counts", {{"late", -4}}}}));
}

}  // namespace
}  // namespace kith::telemetry

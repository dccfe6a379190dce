// What workers leave in the store for each other when they join: every parser takes any bytes. Adding one is
// one entry of `parsers`.
#include "tests/support/fuzz.h"

#include "kith/launch/agreement.h"

namespace kith::launch {
namespace {

using support::Parser;

constexpr std::uint64_t kSeed = 20261116;

void take_facts(const std::string& text) {
  const std::vector<Fact> facts = decode_facts(text);
  EXPECT_FALSE(facts.empty());
  differences({facts, {{"name", "value"}}});
}

const std::vector<Parser> parsers{
    {"Facts",
     {encode_facts({{"host, process 7", "0a1b"}, {"train.batch", "64"}}), encode_facts({{"", ""}})},
     take_facts},
};

class Bytes : public testing::TestWithParam<Parser> {};
INSTANTIATE_TEST_SUITE_P(Any, Bytes, testing::ValuesIn(parsers),
                         [](const auto& parameter) { return parameter.param.name; });

TEST_P(Bytes, AreTakenOrRefused) {
  fuzz(GetParam(), support::kFuzzInputs, kSeed);
}

}  // namespace
}  // namespace kith::launch

#include "kith/train/bleu.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "tests/run/support.h"

namespace kith::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The tokens that the regular expressions of mteval-v13a give, one after the other.
TEST(Bleu, TokensAreThoseOf13a) {
  EXPECT_THAT(bleu_tokens("He said: \"1,000.5 euros,\" (U.S.) rock-n-roll, 3-4."),
              ElementsAre("He", "said", ":", "\"", "1,000.5", "euros", ",", "\"", "(", "U", ".", "S", ".",
                          ")", "rock-n-roll", ",", "3", "-", "4", "."));
  EXPECT_THAT(bleu_tokens("Wait... what?!, no,,yes 5., .5"),
              ElementsAre("Wait", ".", ".", ".", "what", "?", "!", ",", "no", ",", ",", "yes", "5", ".", ",",
                          ".", "5"));
  EXPECT_THAT(bleu_tokens("a/b <b>x</b> &amp;quot; &lt;tag&gt; it's 100% 3.14-5"),
              ElementsAre("a", "/", "b", "<", "b", ">", "x", "<", "/", "b", ">", "&", "quot", ";", "<", "tag",
                          ">", "it's", "100", "%", "3.14", "-", "5"));
  EXPECT_THAT(bleu_tokens("Größe: 10\u00a0km,Straße.„so“ … x\u2003y"),
              ElementsAre("Größe", ":", "10", "km", ",", "Straße", ".", "„so“", "…", "x", "y"));
  EXPECT_THAT(bleu_tokens(""), ElementsAre());
}

TEST(Bleu, OfTheReferenceItselfIsAHundred) {
  const std::vector<std::string> lines{"The quick brown fox jumps.", "It does, over the lazy dog!"};
  const Bleu same = bleu(lines, lines);
  EXPECT_DOUBLE_EQ(same.score, 100);
  EXPECT_EQ(same.tokens, 6u + 8u);
  EXPECT_DOUBLE_EQ(same.brevity_penalty, 1);
}

// "the cat is on the mat" for "the cat sat on the mat": 5 of 6 words are right, 3 of 5 pairs (the cat, on
// the, the mat), 1 of 4 triples (on the mat), none of 3 fours, which counts as half of one.
TEST(Bleu, CountsNGramsAndHalvesWhereNoneIsRight) {
  const Bleu one = bleu({"the cat is on the mat"}, {"the cat sat on the mat"});
  EXPECT_NEAR(one.score, 100 * std::pow(5.0 / 6 * 3 / 5 * 1 / 4 * 0.5 / 3, 0.25), 1e-9);
  EXPECT_NEAR(one.score, 37.9918, 1e-3);
  EXPECT_THAT(one.precisions, ElementsAre(testing::DoubleNear(83.3333, 1e-3), testing::DoubleNear(60, 1e-9),
                                          testing::DoubleNear(25, 1e-9), testing::DoubleNear(16.6667, 1e-3)));
  // Words in the wrong order: 5 of 5, then half of one in 4, a quarter in 3, an eighth in 2.
  EXPECT_NEAR(bleu({"e d c b a"}, {"a b c d e"}).score,
              100 * std::pow(1 * (0.5 / 4) * (0.25 / 3) * (0.125 / 2), 0.25), 1e-9);
}

// A word counts as often as the reference has it: 2 of 7.
TEST(Bleu, ClipsCounts) {
  const Bleu one = bleu({"the the the the the the the"}, {"the cat is on the mat now"});
  EXPECT_NEAR(one.precisions[0], 100.0 * 2 / 7, 1e-9);
  EXPECT_NEAR(one.score, 100 * std::pow(2.0 / 7 * (0.5 / 6) * (0.25 / 5) * (0.125 / 4), 0.25), 1e-9);
}

// Counts of all lines are added before they are divided; 10 tokens for 12 cost exp(1 - 12/10).
TEST(Bleu, IsOfTheCorpusAndPunishesBrevity) {
  const std::vector<std::string> got{"a b c d e", "f g h i x"};
  const std::vector<std::string> wanted{"a b c d e", "f g h i j k l"};
  const Bleu two = bleu(got, wanted);
  EXPECT_NEAR(two.brevity_penalty, std::exp(1 - 12.0 / 10), 1e-12);
  EXPECT_NEAR(two.score, 100 * std::exp(-0.2) * std::pow(9.0 / 10 * 7 / 8 * 5 / 6 * 3 / 4, 0.25), 1e-9);
  EXPECT_THAT(bleu_text(two), HasSubstr("brevity 0.819, 10 tokens for 12"));
}

TEST(Bleu, IsZeroWhereNothingIsRightOrThereIsNothing) {
  EXPECT_EQ(bleu({"x y z u v"}, {"a b c d e"}).score, 0);
  EXPECT_EQ(bleu({""}, {"a b c d e"}).score, 0);
  EXPECT_EQ(bleu({"a b c"}, {"a b c"}).score, 0) << "no line has four words";
  EXPECT_THAT(failure_of<InputError>([] { bleu({"a", "b"}, {"a"}); }), HasSubstr("1 references for 2"));
}

TEST(Bleu, CapitalsCount) {
  EXPECT_LT(bleu({"The cat sat on it"}, {"the cat sat on it"}).score, 100);
}

}  // namespace
}  // namespace kith::train

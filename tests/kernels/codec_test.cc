#include "kith/kernels/codec.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/kernels/codec_kernels.h"

namespace kith::kernels {
namespace {

using Vector = std::vector<double>;

Vector decoded(const Codec<double>& codec, const Vector& x, std::uint64_t draw) {
  std::vector<std::byte> message(codec.bytes(x.size()), std::byte{0xaa});
  codec.encode(x, draw, message);
  Vector to(x.size(), 0.0);
  codec.add(message, draw, to);
  return to;
}

double squared(const Vector& x) {
  double sum = 0;
  for (const double value : x)
    sum += value * value;
  return sum;
}

Vector difference(Vector a, const Vector& b) {
  for (std::size_t k = 0; k < a.size(); ++k)
    a[k] -= b[k];
  return a;
}

Vector gaussian(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  Vector x(count);
  for (double& value : x)
    value = rng.normal();
  return x;
}

const std::vector<std::string> kCodecs{"full", "int8",      "qsgd 4",     "qsgd 6",      "qsgd-max 3",
                                       "sign", "top-k 0.1", "top-k 0.01", "random-k 0.1"};

TEST(Codec, BytesOnTheWireAreThoseOfThePage) {
  const auto bytes = [](const char* text, std::size_t count) {
    return make_codec<float>(text)->bytes(count);
  };
  EXPECT_EQ(bytes("full", 1000), 4000u);
  EXPECT_EQ(bytes("int8", 1000), 1008u + 8 * 4);
  EXPECT_EQ(bytes("qsgd 4", 1000), 500u + 16 * 4);
  EXPECT_EQ(bytes("qsgd-max 3", 1000), 375u + 16 * 4);
  EXPECT_EQ(bytes("sign", 1000), 125u + 4);
  EXPECT_EQ(bytes("sign", 1025), 129u + 2 * 4);
  EXPECT_EQ(bytes("top-k 0.01", 1000), 10u * 8);
  EXPECT_EQ(bytes("random-k 0.1", 1000), 100u * 4);
  EXPECT_EQ(bytes("top-k 0.01", 3), 8u) << "at least one element";
}

// The promise: |Q(x) - x|^2 is at most (1 - delta) |x|^2, in the mean over draws.
TEST(Codec, ContractsAsItSays) {
  std::vector<Vector> cases{gaussian(200, 1), gaussian(64, 2), Vector(130, 1.0), Vector(70, 0.0),
                            gaussian(1, 3)};
  cases.push_back(Vector(128, 0.04));
  cases.back()[0] = 1;  // one large, many small: the worst for sign and for a common scale
  cases.push_back(Vector(1024, 0.0));
  cases.back()[77] = -3;
  for (const std::string& text : kCodecs) {
    const auto codec = make_codec<double>(text);
    for (const Vector& x : cases) {
      constexpr int kDraws = 400;
      double error = 0;
      for (int draw = 0; draw < kDraws; ++draw)
        error += squared(difference(decoded(*codec, x, hash_words(9, draw)), x)) / kDraws;
      const double delta = codec->contraction(x.size());
      EXPECT_GT(delta, 0) << text;
      // Of the mean of so many draws, and of floats.
      EXPECT_LE(error, (1 - delta) * squared(x) * 1.15 + 1e-9) << text << ", " << x.size() << " elements";
    }
  }
}

TEST(Codec, QsgdIsUnbiased) {
  const Vector x = gaussian(100, 4);
  for (const char* text : {"qsgd 4", "qsgd-max 3"}) {
    const auto codec = make_codec<double>(text);
    Vector mean(x.size(), 0.0);
    constexpr int kDraws = 20000;
    for (int draw = 0; draw < kDraws; ++draw) {
      const Vector one = decoded(*codec, x, hash_words(5, draw));
      for (std::size_t k = 0; k < x.size(); ++k)
        mean[k] += one[k] / kDraws;
    }
    for (std::size_t k = 0; k < x.size(); ++k)
      EXPECT_NEAR(mean[k], x[k], 0.05) << text;
  }
}

TEST(Codec, TheSameDrawGivesTheSameMessage) {
  const Vector x = gaussian(300, 6);
  for (const std::string& text : kCodecs) {
    const auto codec = make_codec<double>(text);
    EXPECT_EQ(decoded(*codec, x, 7), decoded(*codec, x, 7)) << text;
  }
  const auto drawn = make_codec<double>("random-k 0.1");
  EXPECT_NE(decoded(*drawn, x, 7), decoded(*drawn, x, 8));
}

TEST(Codec, SaysWhatItIs) {
  const Vector x{0.5, -4, 1, 0.25, 3, -1};
  EXPECT_EQ(decoded(*make_codec<double>("full"), x, 1), x);
  EXPECT_EQ(decoded(*make_codec<double>("top-k 0.3"), x, 1), (Vector{0, -4, 0, 0, 3, 0}));
  const double mean = 9.75 / 6;
  EXPECT_EQ(decoded(*make_codec<double>("sign"), x, 1), (Vector{mean, -mean, mean, mean, mean, -mean}));
  int kept = 0;
  for (const double value : decoded(*make_codec<double>("random-k 0.5"), x, 1))
    kept += value != 0 ? 1 : 0;
  EXPECT_EQ(kept, 3);
}

// What is no number stays none, in its block alone, and nothing else is harmed.
TEST(Codec, ABlockWithoutNumbersBecomesNans) {
  struct Case {
    const char* text;
    std::size_t block;
  };
  for (const auto& [text, block] :
       {Case{"int8", 128}, Case{"qsgd 4", 64}, Case{"qsgd-max 3", 64}, Case{"sign", 1024}}) {
    for (const double special : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, -HUGE_VAL}) {
      Vector x = gaussian(3 * block, 8);
      x[block + 3] = special;
      const Vector got = decoded(*make_codec<double>(text), x, 1);
      for (std::size_t k = 0; k < got.size(); ++k)
        EXPECT_EQ(std::isnan(got[k]), k / block == 1) << text << ", element " << k;
    }
  }
  Vector x = gaussian(50, 9);
  x[7] = std::numeric_limits<double>::quiet_NaN();
  const Vector got = decoded(*make_codec<double>("top-k 0.02"), x, 1);
  EXPECT_TRUE(std::isnan(got[7]));
}

// Device kernels follow the replica with the message that they write, as a reader does.
TEST(Codec, EncodingFollowsTheReplica) {
  const Vector x = gaussian(300, 10), before = gaussian(300, 11);
  for (const std::string& text : kCodecs) {
    const auto kernels = make_host_codec_kernels<double>(text);
    std::vector<std::byte> message(make_codec<double>(text)->bytes(x.size()));
    Vector own = before, peer = before;
    kernels->encode(x.data(), own.data(), x.size(), 3, message.data());
    kernels->add(message.data(), 3, peer.data(), peer.size());
    EXPECT_EQ(own, peer) << text;
    EXPECT_LT(squared(difference(own, x)), squared(difference(before, x))) << text;
  }
}

TEST(Codec, RefusesWhatCannotConvergeOrIsNone) {
  for (const char* text : {"qsgd 2", "qsgd 3", "qsgd-max 2"}) {
    try {
      make_codec<float>(text);
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("cannot converge"), std::string::npos) << error.what();
    }
  }
  for (const char* text : {"", "signs", "qsgd", "qsgd x", "qsgd 4.5", "qsgd 9", "top-k", "top-k 0",
                           "top-k 1.5", "random-k -1", "top-k nan"})
    EXPECT_THROW(make_codec<float>(text), InputError) << text;
}

}  // namespace
}  // namespace kith::kernels

// Codecs on a GPU against the host's: the same messages, and the same bits of what they decode to.
#include "kith/kernels/codec.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/kernels/cuda/cuda_codec.h"
#include "tests/kernels/cuda/device_memory.h"
#include "tests/kernels/cuda/fresh_seed.h"

namespace kith::kernels {
namespace {

class CudaCodecTest : public FreshSeed {};

const std::vector<std::string> kCodecs{
    "full",       "int8",       "qsgd 4", "qsgd 5",    "qsgd 6",     "qsgd 7",  "qsgd 8",       "qsgd-max 3",
    "qsgd-max 4", "qsgd-max 8", "sign",   "top-k 0.1", "top-k 0.01", "top-k 1", "random-k 0.1", "random-k 1"};
const std::vector<std::size_t> kCounts{1,   2,   3,    5,    31,   63,   64,   65,   127,   128,    129,
                                       500, 999, 1023, 1024, 1025, 2048, 4095, 4097, 16384, 100'003};

constexpr std::size_t kGuard = 32;  // bytes behind a message, which nobody writes
constexpr auto kUntouched = std::byte{0xaa};

template <class T>
std::vector<T> normals(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<T> made(count);
  for (T& x : made)
    x = static_cast<T>(rng.normal());
  return made;
}

template <class T>
std::string difference(const std::vector<T>& got, const std::vector<T>& want) {
  for (std::size_t k = 0; k < want.size(); ++k) {
    const bool both_nan = got[k] != got[k] && want[k] != want[k];
    if (!both_nan && std::memcmp(&got[k], &want[k], sizeof(T)) != 0)
      return cat("element ", k, " is ", got[k], " instead of ", want[k]);
  }
  return "";
}

std::string difference(const std::vector<std::byte>& got, const std::vector<std::byte>& want) {
  for (std::size_t k = 0; k < want.size(); ++k)
    if (got[k] != want[k])
      return cat("byte ", k, " of ", want.size() - kGuard, " is ", static_cast<int>(got[k]), " instead of ",
                 static_cast<int>(want[k]));
  return "";
}

struct Same {
  bool messages = true;
  std::size_t offset = 0;  // of the vectors from an aligned address
};

// Encodes x to a replica and decodes to another one, here and there.
template <class T>
void expect_same(const std::string& text, const std::vector<T>& x, const std::vector<T>& replica,
                 std::uint64_t draw, const Same& same = {}) {
  const std::size_t count = x.size() - same.offset;
  const std::string what = cat(text, ", ", count, " elements of ", sizeof(T), " bytes from ", same.offset);
  const std::size_t bytes = make_codec<T>(text)->bytes(count);
  std::vector<std::byte> message(bytes + kGuard, kUntouched);
  std::vector<T> own = replica, peer = normals<T>(x.size(), hash_words(draw, 1));
  const OnGpu<T> on_x(x), on_own(own), on_peer(peer);
  const OnGpu<std::byte> on_message(message);

  const auto host = make_host_codec_kernels<T>(text);
  host->encode(x.data() + same.offset, own.data() + same.offset, count, draw, message.data());
  const auto gpu = make_cuda_codec_kernels<T>(text);
  gpu->encode(on_x.data() + same.offset, on_own.data() + same.offset, count, draw, on_message.data());
  if (same.messages) {
    ASSERT_EQ(difference(on_message.back(), message), "") << what << ", the message";
  }
  ASSERT_EQ(difference(on_own.back(), own), "") << what << ", the own replica";

  host->add(message.data(), draw, peer.data() + same.offset, count);
  gpu->add(on_message.data(), draw, on_peer.data() + same.offset, count);
  ASSERT_EQ(difference(on_peer.back(), peer), "") << what << ", a peer's replica";
}

template <class T>
void expect_same_everywhere(std::uint64_t seed) {
  for (const std::string& text : kCodecs) {
    for (const std::size_t count : kCounts) {
      for (const std::size_t offset : {0, 1}) {
        const auto x = normals<T>(count + offset, hash_words(seed, count));
        const auto replica = normals<T>(count + offset, hash_words(seed, count, 1));
        expect_same<T>(text, x, replica, hash_words(seed, count, 2), {.offset = offset});
      }
    }
  }
}

TEST_F(CudaCodecTest, GivesTheMessagesOfTheHostInFloat) {
  expect_same_everywhere<float>(seed_);
}

TEST_F(CudaCodecTest, GivesTheMessagesOfTheHostInDouble) {
  expect_same_everywhere<double>(seed_);
}

// Replicas that have come near: differences of few bits, many of them equal or 0, some denormal.
template <class T>
void expect_same_of_small_ones(std::uint64_t seed) {
  constexpr std::size_t kCount = 20'011;
  Rng rng(seed);
  std::vector<T> x(kCount), replica(kCount), tiny(kCount);
  for (std::size_t k = 0; k < kCount; ++k) {
    x[k] = static_cast<T>(rng.below(7)) - 3;
    replica[k] = rng.below(3) == 0 ? x[k] : static_cast<T>(rng.below(5)) - 2;
    tiny[k] = static_cast<T>(rng.normal()) * std::numeric_limits<T>::denorm_min() * 1000;
  }
  const std::vector<T> zeros(kCount), nowhere(kCount, T{1});
  for (const std::string& text : kCodecs) {
    expect_same<T>(text, x, replica, seed);
    expect_same<T>(text, nowhere, nowhere, seed);
    expect_same<T>(text, zeros, zeros, seed);
    expect_same<T>(text, tiny, zeros, seed);
  }
}

TEST_F(CudaCodecTest, TiesZerosAndDenormalsAreThoseOfTheHost) {
  expect_same_of_small_ones<float>(seed_);
  expect_same_of_small_ones<double>(seed_);
}

// Magnitudes from the least to the greatest, which need every digit of top-k's keys.
template <class T>
void expect_same_of_any_size(std::uint64_t seed) {
  constexpr std::size_t kCount = 30'001;
  Rng rng(seed);
  std::vector<T> x(kCount);
  const int range = std::numeric_limits<T>::max_exponent / 3;
  for (T& value : x)
    value = static_cast<T>(std::ldexp(rng.normal(), static_cast<int>(rng.below(2 * range)) - range));
  for (const std::string& text : kCodecs)
    expect_same<T>(text, x, std::vector<T>(kCount), seed);
}

TEST_F(CudaCodecTest, AnyMagnitudeIsThatOfTheHost) {
  expect_same_of_any_size<float>(seed_);
  expect_same_of_any_size<double>(seed_);
}

// The bits of a NaN may differ, its place does not.
template <class T>
void expect_same_of_specials(std::uint64_t seed) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  for (const T special : {kInfinity, -kInfinity, std::numeric_limits<T>::quiet_NaN()}) {
    auto x = normals<T>(5000, seed);
    x[3] = x[1500] = x[4999] = special;
    for (const std::string& text : kCodecs)
      expect_same<T>(text, x, normals<T>(5000, seed + 1), seed, {.messages = special == special});
  }
}

TEST_F(CudaCodecTest, NansAndInfinitiesAreThoseOfTheHost) {
  expect_same_of_specials<float>(seed_);
  expect_same_of_specials<double>(seed_);
}

// The same instance, again and with another count: what top-k keeps in between does not matter.
TEST_F(CudaCodecTest, AnInstanceServesManyCalls) {
  for (const std::string& text : kCodecs) {
    const auto gpu = make_cuda_codec_kernels<float>(text);
    const auto host = make_host_codec_kernels<float>(text);
    for (const std::size_t count : {300, 70'000, 5000}) {
      std::vector<float> own(count);
      const OnGpu<float> on_own(own);
      std::vector<std::byte> message(make_codec<float>(text)->bytes(count));
      const OnGpu<std::byte> on_message(message);
      for (std::uint64_t version = 1; version < 6; ++version) {
        const auto x = normals<float>(count, hash_words(seed_, version));
        const OnGpu<float> on_x(x);
        host->encode(x.data(), own.data(), count, version, message.data());
        gpu->encode(on_x.data(), on_own.data(), count, version, on_message.data());
        ASSERT_EQ(difference(on_own.back(), own), "") << text << ", version " << version;
      }
    }
  }
}

TEST_F(CudaCodecTest, NothingIsAMessageOfNothing) {
  for (const std::string& text : kCodecs) {
    const auto gpu = make_cuda_codec_kernels<float>(text);
    EXPECT_NO_THROW(gpu->encode(nullptr, nullptr, 0, 1, nullptr)) << text;
    EXPECT_NO_THROW(gpu->add(nullptr, 1, nullptr, 0)) << text;
  }
  EXPECT_THROW(make_cuda_codec_kernels<float>("signs"), InputError);
}

}  // namespace
}  // namespace kith::kernels

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/idx.h"
#include "kith/train/data/mnist_files.h"
#include "kith/train/data/sampler.h"
#include "kith/train/data/text.h"
#include "tests/run/support.h"

namespace kith::train {
namespace {

using testing::HasSubstr;

std::vector<std::uint64_t> draw(Sampler& sampler) {
  const auto batch = sampler.next();
  return {batch.begin(), batch.end()};
}

// All batches of one epoch, [worker][batch].
using Dealt = std::vector<std::vector<std::vector<std::uint64_t>>>;

Dealt deal(std::uint64_t samples, int workers, std::uint64_t batch, std::uint64_t epoch) {
  Dealt dealt;
  for (Rank rank = 0; rank < workers; ++rank) {
    Sampler sampler({.samples = samples, .workers = workers, .rank = rank, .batch = batch, .seed = 7});
    while (sampler.epoch() < epoch)
      sampler.next();
    dealt.emplace_back();
    while (sampler.epoch() == epoch)
      dealt.back().push_back(draw(sampler));
  }
  return dealt;
}

TEST(Sampler, EveryWorkerGetsAsManyBatchesAndNoSampleTwice) {
  for (const std::uint64_t samples : {64u, 97u, 1000u}) {
    for (const int workers : {1, 2, 3, 5}) {
      for (const std::uint64_t batch : {1u, 4u, 7u}) {
        for (const std::uint64_t epoch : {0u, 1u, 4u}) {
          SCOPED_TRACE(cat(samples, " samples, ", workers, " workers, batch ", batch, ", epoch ", epoch));
          const Dealt dealt = deal(samples, workers, batch, epoch);
          std::set<std::uint64_t> seen;
          for (const auto& batches : dealt) {
            EXPECT_EQ(batches.size(), samples / (static_cast<std::uint64_t>(workers) * batch));
            for (const auto& numbers : batches) {
              EXPECT_EQ(numbers.size(), batch);
              for (const std::uint64_t number : numbers) {
                EXPECT_LT(number, samples);
                EXPECT_TRUE(seen.insert(number).second) << number << " came twice";
              }
            }
          }
        }
      }
    }
  }
}

TEST(Sampler, EpochsDifferAndSeedsDiffer) {
  EXPECT_NE(deal(200, 2, 5, 0), deal(200, 2, 5, 1));
  Sampler a({.samples = 200, .workers = 1, .rank = 0, .batch = 50, .seed = 1});
  Sampler b({.samples = 200, .workers = 1, .rank = 0, .batch = 50, .seed = 2});
  EXPECT_NE(draw(a), draw(b));
}

TEST(Sampler, OverManyEpochsNothingIsLeftOutForGood) {
  // 10 samples, 8 of which are dealt in an epoch.
  std::map<std::uint64_t, int> counts;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    for (const auto& batches : deal(10, 2, 4, epoch)) {
      for (const auto& numbers : batches) {
        for (const std::uint64_t number : numbers)
          ++counts[number];
      }
    }
  }
  ASSERT_EQ(counts.size(), 10u);
  for (const auto& [number, count] : counts)
    EXPECT_NEAR(count, 160, 30) << number;  // binomial: deviation 5.7
}

TEST(Sampler, ABatchOfAllWorkersDoesNotDependOnTheirNumber) {
  const Dealt two = deal(96, 2, 12, 3);
  const Dealt four = deal(96, 4, 6, 3);
  for (std::size_t b = 0; b < two[0].size(); ++b) {
    std::vector<std::uint64_t> together_two, together_four;
    for (const auto& batches : two)
      together_two.insert(together_two.end(), batches[b].begin(), batches[b].end());
    for (const auto& batches : four)
      together_four.insert(together_four.end(), batches[b].begin(), batches[b].end());
    EXPECT_EQ(together_two, together_four);
  }
}

TEST(Sampler, GoesOnFromAnyPosition) {
  const SamplerOptions options{.samples = 50, .workers = 2, .rank = 1, .batch = 6, .seed = 3};
  Sampler whole(options);
  for (int drawn = 0; drawn < 11; ++drawn) {
    Sampler resumed(options);
    resumed.seek(whole.position());
    Sampler reference(options);
    for (int i = 0; i < drawn; ++i)
      reference.next();
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(draw(resumed), draw(reference)) << "after " << drawn << " batches";
    whole.next();
  }
}

// Batches of every worker until the epoch is over, by sample.
void deal_epoch(std::vector<Sampler>& samplers, std::map<std::uint64_t, int>& times, int most_batches) {
  const std::uint64_t epoch = samplers.front().epoch();
  for (int b = 0; b < most_batches && samplers.front().epoch() == epoch; ++b) {
    for (Sampler& sampler : samplers) {
      for (const std::uint64_t number : sampler.next())
        ++times[number];
    }
  }
}

std::vector<Sampler> samplers_for(int workers, const std::vector<std::byte>& position) {
  std::vector<Sampler> samplers;
  for (Rank rank = 0; rank < workers; ++rank) {
    samplers.emplace_back(
        SamplerOptions{.samples = 103, .workers = workers, .rank = rank, .batch = 3, .seed = 11});
    if (!position.empty()) samplers.back().seek(position);
  }
  return samplers;
}

TEST(Sampler, AnotherNumberOfWorkersSharesWhatIsLeftOfTheEpoch) {
  for (const int others : {1, 2, 3, 6}) {
    for (const int batches : {0, 1, 5, 7}) {
      SCOPED_TRACE(cat("4 workers, then ", others, " after ", batches, " batches"));
      std::vector<Sampler> four = samplers_for(4, {});
      std::map<std::uint64_t, int> times;
      deal_epoch(four, times, 1000);  // the position lies in the second epoch
      times.clear();
      deal_epoch(four, times, batches);
      std::vector<Sampler> then = samplers_for(others, four.front().position());
      EXPECT_EQ(then.front().epoch(), 1u);
      EXPECT_EQ(then.front().drawn(), static_cast<std::uint64_t>(8 + batches));
      deal_epoch(then, times, 1000);
      for (const auto& [number, count] : times)
        EXPECT_EQ(count, 1) << "sample " << number;
      const auto together = static_cast<std::size_t>(3 * others);
      const std::size_t rest = (103 - static_cast<std::size_t>(12 * batches)) / together * together;
      EXPECT_EQ(times.size(), 12 * static_cast<std::size_t>(batches) + rest);
      EXPECT_EQ(then.front().epoch(), 2u);
      times.clear();
      deal_epoch(then, times, 1000);
      EXPECT_EQ(times.size(), 103 / together * together) << "the next epoch is whole";
    }
  }
}

TEST(Sampler, RefusesPositionsThatNoSamplerHas) {
  std::vector<Sampler> one = samplers_for(1, {});
  const auto with = [&](std::size_t word, std::uint64_t value) {
    std::vector<std::byte> position = one.front().position();
    std::memcpy(position.data() + 8 * word, &value, sizeof value);
    return position;
  };
  for (const auto& bad :
       {with(2, 1), with(2, ~std::uint64_t{0}), with(3, 104), with(3, 1), with(3, ~std::uint64_t{2})})
    EXPECT_THAT(failure_of<InputError>([&] { one.front().seek(bad); }), HasSubstr("no place to be"));
  EXPECT_EQ(one.front().drawn(), 0u);
}

TEST(Sampler, RefusesAPositionOfOtherData) {
  Sampler one({.samples = 50, .workers = 2, .rank = 0, .batch = 6, .seed = 3});
  Sampler other({.samples = 51, .workers = 2, .rank = 0, .batch = 6, .seed = 3});
  EXPECT_THAT(failure_of<InputError>([&] { other.seek(one.position()); }), HasSubstr("other data"));
  std::vector<std::byte> cut = one.position();
  cut.pop_back();
  EXPECT_THAT(failure_of<InputError>([&] { one.seek(cut); }), HasSubstr("31 bytes"));
}

TEST(Sampler, RefusesTooLittleData) {
  const std::string message = failure_of<InputError>(
      [] { Sampler({.samples = 31, .workers = 4, .rank = 0, .batch = 8, .seed = 1}); });
  EXPECT_THAT(message, HasSubstr("31 samples"));
  EXPECT_THAT(message, HasSubstr("train.batch"));
}

TEST(Text, SamplesLieEndToEndWithinTheirPart) {
  const TestFolder folder;
  std::string bytes;
  for (int i = 0; i < 1000; ++i)
    bytes += static_cast<char>(i % 251);
  const Text text(folder.write("t.txt", bytes), 0.1, 16);
  const std::uint8_t* const begin = text.validation(0).data() - 900;
  for (const std::uint64_t epoch : {0u, 1u, 2u, 3u}) {
    const std::ptrdiff_t shift = text.train(0, epoch).data() - begin;
    EXPECT_GE(shift, 0);
    EXPECT_LT(shift, 16);
    for (std::uint64_t s = 0; s < text.train_samples(); ++s) {
      const auto sample = text.train(s, epoch);
      const std::ptrdiff_t place = sample.data() - begin;
      EXPECT_EQ(place, shift + static_cast<std::ptrdiff_t>(16 * s));
      EXPECT_EQ(sample.size(), 17u);
      EXPECT_LE(place + 17, 900) << "reaches into the validation part";
      EXPECT_EQ(sample.front(), place % 251);
      EXPECT_EQ(sample.back(), (place + 16) % 251);
    }
  }
  EXPECT_EQ(text.validation_samples(), 6u);  // 100 bytes: six of 16 and the byte that follows
  EXPECT_EQ(text.validation(0).front(), 900 % 251);
}

TEST(Text, RefusesWhatIsTooShortOrMissing) {
  const TestFolder folder;
  EXPECT_THAT(failure_of<InputError>([&] { Text(folder.write("t.txt", "short"), 0.1, 16); }),
              HasSubstr("5 bytes"));
  EXPECT_THAT(failure_of<InputError>([&] { Text(folder.path() / "none.txt", 0.1, 16); }),
              HasSubstr("none.txt"));
  EXPECT_THAT(failure_of<InputError>([&] { Text(folder.path(), 0.1, 16); }), HasSubstr("is a folder"));
}

std::string idx_bytes(std::uint8_t type, const std::vector<std::uint32_t>& sizes, std::size_t payload) {
  std::string bytes{'\0', '\0', static_cast<char>(type), static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    for (const int shift : {24, 16, 8, 0})
      bytes += static_cast<char>(size >> shift & 0xff);
  }
  for (std::size_t i = 0; i < payload; ++i)
    bytes += static_cast<char>(i);
  return bytes;
}

TEST(Idx, ReadsSizesAndBytes) {
  const TestFolder folder;
  const Idx idx = read_idx(folder.write("x", idx_bytes(8, {2, 3, 300}, 1800)), 3);
  EXPECT_THAT(idx.sizes, testing::ElementsAre(2, 3, 300));
  ASSERT_EQ(idx.bytes.size(), 1800u);
  EXPECT_EQ(idx.bytes[1799], 1799 % 256);
}

TEST(Idx, SaysWhatIsWrong) {
  const TestFolder folder;
  std::string zipped = "\x1f\x8b";
  zipped += "not really";
  std::string no_magic = idx_bytes(8, {4}, 4);
  no_magic[0] = 'P';
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "has 0 bytes"},
      {"ab", "has 2 bytes"},
      {zipped, "gunzip"},
      {no_magic, "two zero bytes"},
      {idx_bytes(13, {4}, 16), "elements of type 13"},
      {idx_bytes(8, {2, 2}, 4), "has 2 dimensions, wanted 1"},
      {idx_bytes(8, {4}, 4).substr(0, 6), "ends within its header"},
      {idx_bytes(8, {5}, 4), "holds 4 bytes"},
      {idx_bytes(8, {3}, 4), "holds 4 bytes"},
      {idx_bytes(8, {0xffffffff}, 4), "holds 4 bytes"},
  };
  for (const auto& [bytes, wanted] : cases) {
    const auto bad = folder.write("bad.idx", bytes);
    const std::string message = failure_of<InputError>([&] { read_idx(bad, 1); });
    EXPECT_THAT(message, HasSubstr(wanted));
    EXPECT_THAT(message, HasSubstr("bad.idx"));
  }
  EXPECT_THAT(failure_of<InputError>([&] { read_idx(folder.path() / "absent.idx", 1); }),
              HasSubstr("absent.idx"));
  // Sizes whose product overflows 64 bits.
  const std::string huge = idx_bytes(8, {0xffffffff, 0xffffffff, 0xffffffff}, 4);
  EXPECT_THAT(failure_of<InputError>([&] { read_idx(folder.write("huge.idx", huge), 3); }),
              HasSubstr("holds 4 bytes"));
}

TEST(Mnist, MissingOrForeignFilesAreNamedWithTheCommandThatFetchesThem) {
  const TestFolder folder;
  const std::string missing = failure_of<InputError>([&] { check_mnist(folder.path()); });
  EXPECT_THAT(missing, HasSubstr("train-images-idx3-ubyte"));
  EXPECT_THAT(missing, HasSubstr("kith data mnist"));
  folder.write("train-images-idx3-ubyte", "short");
  EXPECT_THAT(failure_of<InputError>([&] { check_mnist(folder.path()); }),
              HasSubstr("has 5 bytes, wanted 47040016"));
  folder.write("train-images-idx3-ubyte", std::string(47'040'016, '\0'));
  EXPECT_THAT(failure_of<InputError>([&] { check_mnist(folder.path()); }), HasSubstr("checksum"));
}

}  // namespace
}  // namespace kith::train

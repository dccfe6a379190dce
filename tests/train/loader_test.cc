#include "kith/train/data/loader.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>

#include "kith/base/clock.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;

// Sample k is the number k; its target is the epoch.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::uint64_t bad = ~std::uint64_t{0}) : bad_(bad) {}
  std::uint64_t train_samples() const override { return 10; }
  std::uint64_t validation_samples() const override { return 0; }
  Batch train(std::span<const std::uint64_t> samples, std::uint64_t epoch) const override {
    ++made;
    std::vector<std::int64_t> numbers(samples.begin(), samples.end());
    for (const std::uint64_t sample : samples)
      if (sample == bad_) throw std::runtime_error("bad sample");
    return {torch::tensor(numbers, torch::kInt64),
            torch::full({static_cast<std::int64_t>(numbers.size())}, static_cast<std::int64_t>(epoch))};
  }
  Batch validation(std::span<const std::uint64_t>) const override { return {}; }

  mutable std::atomic<int> made{0};

 private:
  const std::uint64_t bad_;
};

Sampler sampler(int workers = 1) {
  return Sampler({.samples = 10, .workers = workers, .rank = workers - 1, .batch = 3, .seed = 4});
}

std::vector<std::int64_t> integers(const torch::Tensor& t) {
  const torch::Tensor plain = t.cpu().contiguous();
  return {plain.data_ptr<std::int64_t>(), plain.data_ptr<std::int64_t>() + plain.numel()};
}

TEST(Loader, GivesTheSamplersBatchesAndPositions) {
  const Numbers dataset;
  for (const int ahead : {1, 5}) {
    Sampler expected = sampler();
    Loader loader(dataset, sampler(), {.device = test_device(), .ahead = ahead});
    for (int k = 0; k < 20; ++k) {
      EXPECT_EQ(loader.epoch(), expected.epoch());
      EXPECT_EQ(loader.position(), expected.position());
      const auto epoch = static_cast<std::int64_t>(expected.epoch());
      const auto next = expected.next();
      const Batch batch = loader.next();
      EXPECT_EQ(batch.input.device().type(), test_device().type());
      EXPECT_EQ(integers(batch.input), std::vector<std::int64_t>(next.begin(), next.end()));
      EXPECT_EQ(integers(batch.target), std::vector<std::int64_t>(3, epoch));
    }
  }
}

TEST(Loader, GoesOnFromThePositionOfWhatWasTaken) {
  const Numbers dataset;
  std::vector<std::byte> position;
  std::vector<std::int64_t> fifth;
  {
    Loader loader(dataset, sampler(), {.device = test_device(), .ahead = 4});
    for (int k = 0; k < 4; ++k)
      loader.next();
    position = loader.position();
    fifth = integers(loader.next().input);
  }
  Sampler resumed = sampler();
  resumed.seek(position);
  EXPECT_EQ(integers(Loader(dataset, resumed, {.device = test_device()}).next().input), fifth);
}

TEST(Loader, MakesNoMoreThanItWasTold) {
  const Numbers dataset;
  Loader loader(dataset, sampler(), {.device = test_device(), .ahead = 3});
  loader.next();
  const Deadline deadline = support::in_time();
  while (dataset.made < 4 && SteadyClock().now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(dataset.made, 4);  // one taken, three ahead
}

TEST(Loader, FailuresComeWithTheirBatch) {
  const Numbers dataset(/*bad=*/7);
  Loader loader(dataset, sampler(), {.device = test_device()});
  int good = 0;
  try {
    while (good < 10) {
      loader.next();
      ++good;
    }
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "bad sample");
  }
  EXPECT_LT(good, 4);  // every sample but one comes in an epoch of three batches; the next has other ones
  EXPECT_THROW(loader.next(), std::runtime_error) << "and stays";
}

}  // namespace
}  // namespace kith::train

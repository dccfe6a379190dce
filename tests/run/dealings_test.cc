// Data dealt anew when workers die and come.
#include "kith/train/data/dealings.h"

#include <map>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "tests/support/failure.h"

namespace kith::train {
namespace {

using support::failure_of;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kSamples = 103, kBatch = 3;

SamplerOptions options_for(int workers, Rank rank) {
  return {.samples = kSamples, .workers = workers, .rank = rank, .batch = kBatch, .seed = 5};
}

std::vector<WorkerId> ids(std::initializer_list<int> numbers) {
  std::vector<WorkerId> all;
  for (const int number : numbers)
    all.push_back(WorkerId{number});
  return all;
}

// Workers that draw in step, and who has seen what. A worker's own samples count once somebody has heard of
// them.
class Workers {
 public:
  explicit Workers(std::vector<WorkerId> members)
      : dealings_(std::make_unique<Dealings>(options_for(static_cast<int>(members.size()), 0), members,
                                             dealings_position())) {
    begin(std::move(members), dealings_position());
  }

  void step(int times = 1) {
    for (int t = 0; t < times; ++t) {
      if (samplers_.front().epoch() != epoch_) {
        epoch_ = samplers_.front().epoch();
        seen_.clear();
      }
      for (std::size_t rank = 0; rank < samplers_.size(); ++rank) {
        std::vector<std::uint64_t>& batch = drawn_[members_[rank]].emplace_back();
        for (const std::uint64_t sample : samplers_[rank].next()) {
          ++seen_[sample];
          batch.push_back(sample);
        }
      }
    }
  }

  // The members lose a worker of which they have `batches`.
  Dealings::Unheard lose(WorkerId worker, std::uint64_t batches, std::vector<WorkerId> left) {
    const SamplerPosition now = decode_position(samplers_.front().position());
    const GoneWorker gone{worker, batches};
    const Dealings::Anew anew = dealings_->deal(now, left, {&gone, 1});
    // What it did since is in no model.
    const auto& all = drawn_[worker];
    for (std::size_t b = static_cast<std::size_t>(batches); b < all.size(); ++b) {
      for (const std::uint64_t sample : all[b])
        if (now.epoch == epoch_ && seen_.contains(sample) && --seen_[sample] == 0) seen_.erase(sample);
    }
    begin(std::move(left), anew.position);
    return anew.unheard.front();
  }

  // One more comes. From then on all deal by what it was told.
  void join(WorkerId worker, std::vector<WorkerId> members) {
    const SamplerPosition now = decode_position(samplers_.front().position());
    const Dealings::Anew anew = dealings_->deal(now, members, {});
    auto told = std::make_unique<Dealings>(options_for(1, 0), ids({worker.value}), dealings_position());
    told->take_over(dealings_->words());
    EXPECT_EQ(told->words(), dealings_->words());
    dealings_ = std::move(told);
    drawn_[worker].resize(static_cast<std::size_t>(now.drawn));
    begin(std::move(members), anew.position);
  }

  const std::map<std::uint64_t, int>& seen() const { return seen_; }
  const std::vector<std::uint64_t>& last_of(WorkerId worker) { return drawn_[worker].back(); }
  std::uint64_t epoch() const { return samplers_.front().epoch(); }
  std::uint64_t left() const { return samplers_.front().left(); }

 private:
  static SamplerPosition dealings_position() {
    return decode_position(Sampler(options_for(1, 0)).position());
  }
  void begin(std::vector<WorkerId> members, const SamplerPosition& position) {
    members_ = std::move(members);
    samplers_.clear();
    for (Rank rank = 0; rank < static_cast<Rank>(members_.size()); ++rank) {
      samplers_.emplace_back(options_for(static_cast<int>(members_.size()), rank));
      samplers_.back().seek(encode(position));
    }
  }

  std::unique_ptr<Dealings> dealings_;
  std::vector<WorkerId> members_;
  std::vector<Sampler> samplers_;
  std::uint64_t epoch_ = 0;
  std::map<std::uint64_t, int> seen_;  // in this epoch, by how many models that are left
  std::map<WorkerId, std::vector<std::vector<std::uint64_t>>> drawn_;
};

TEST(Dealings, WhatNobodyHeardOfIsDealtAgainFirst) {
  Workers run(ids({0, 1, 2, 3}));
  run.step(2);
  const std::vector<std::uint64_t> lost = run.last_of(WorkerId{1});
  const Dealings::Unheard unheard = run.lose(WorkerId{1}, 1, ids({0, 2, 3}));
  EXPECT_EQ(unheard.again, kBatch);
  EXPECT_EQ(unheard.unseen, 0u);
  run.step();
  EXPECT_EQ(run.last_of(WorkerId{0}), lost);
}

TEST(Dealings, WhatWasHeardOfIsNotDealtAgain) {
  Workers run(ids({0, 1, 2, 3}));
  run.step(3);
  EXPECT_EQ(run.lose(WorkerId{2}, 3, ids({0, 1, 3})).again, 0u);
  while (run.epoch() == 0)
    run.step();
  for (const auto& [sample, times] : run.seen())
    EXPECT_EQ(times, 1) << sample;
  EXPECT_EQ(run.seen().size(), 36 + (kSamples - 36) / 9 * 9);
}

TEST(Dealings, OfAnEarlierEpochNothingIsDealtAgain) {
  Workers run(ids({0, 1, 2, 3}));
  while (run.epoch() == 0)
    run.step();  // 8 batches each
  run.step();
  const Dealings::Unheard unheard = run.lose(WorkerId{3}, 6, ids({0, 1, 2}));
  EXPECT_EQ(unheard.again, kBatch);
  EXPECT_EQ(unheard.unseen, 2 * kBatch);
}

// Whatever dies when, known up to whatever batch: in the epoch every sample is in exactly one model, but for
// those that do not fill a batch of all at its end.
TEST(Dealings, NoSampleTwiceAndNoneForgotten) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Rng rng(seed);
    std::vector<WorkerId> members = ids({0, 1, 2, 3, 4});
    Workers run(members);
    std::uint64_t steps = 0;
    const std::uint64_t epoch = rng.below(2);
    while (run.epoch() < epoch) {
      run.step();
      ++steps;
    }
    const std::uint64_t begun = steps;
    while (run.epoch() == epoch) {
      run.step();
      ++steps;
      if (run.epoch() != epoch || members.size() == 1 || rng.below(4) != 0) continue;
      const WorkerId gone = members[rng.below(members.size())];
      std::erase(members, gone);
      run.lose(gone, begun + rng.below(steps - begun + 1), members);
    }
    for (const auto& [sample, times] : run.seen())
      EXPECT_EQ(times, 1) << "sample " << sample;
    EXPECT_GT(run.seen().size() + kBatch * members.size(), kSamples);
  }
}

// The same where others come, and may die too.
TEST(Dealings, WhoComesIsDealtWhatIsLeft) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Rng rng(seed);
    std::vector<WorkerId> members = ids({0, 1});
    std::map<WorkerId, std::uint64_t> came{{WorkerId{0}, 0}, {WorkerId{1}, 0}};
    Workers run(members);
    int next = 2;
    for (std::uint64_t steps = 1; run.epoch() == 0; ++steps) {
      run.step();
      if (run.epoch() != 0 || rng.below(3) != 0) continue;
      if (members.size() > 1 && rng.below(2) == 0) {
        const WorkerId gone = members[rng.below(members.size())];
        std::erase(members, gone);
        run.lose(gone, came[gone] + rng.below(steps - came[gone] + 1), members);
      } else if (members.size() < 4) {
        members.push_back(WorkerId{next++});
        came[members.back()] = steps;
        run.join(members.back(), members);
      }
    }
    for (const auto& [sample, times] : run.seen())
      EXPECT_EQ(times, 1) << "sample " << sample;
    EXPECT_GT(run.seen().size() + kBatch * members.size(), kSamples);
  }
}

TEST(Dealings, WordsThatAreNoneAreRefused) {
  Dealings dealings(options_for(2, 0), ids({0, 1}), decode_position(Sampler(options_for(2, 0)).position()));
  std::vector<std::uint64_t> words = dealings.words();
  words.pop_back();
  EXPECT_THAT(failure_of<Error>([&] { dealings.take_over(words); }), HasSubstr("end too soon"));
  EXPECT_THAT(failure_of<Error>([&] {
                dealings.take_over(std::vector<std::uint64_t>{0, 0});
              }),
              HasSubstr("there is none"));
  EXPECT_THAT(failure_of<Error>([&] {
                dealings.take_over(std::vector<std::uint64_t>{0, ~0ULL, 1});
              }),
              HasSubstr("end too soon"));
}

TEST(Dealings, PositionsAreKept) {
  SamplerPosition position{7, 8, 9, 60, {{0, 3}, {12, 6}}};
  EXPECT_EQ(decode_position(encode(position)), position);
  EXPECT_THAT(position.left(103), ElementsAre(SampleRange{0, 3}, SampleRange{12, 6}, SampleRange{60, 43}));
}

TEST(Dealings, APositionThatDealsWhatWasNotDealtIsRefused) {
  Sampler sampler(options_for(2, 0));
  for (int b = 0; b < 5; ++b)
    sampler.next();
  for (const std::vector<SampleRange>& again : {std::vector<SampleRange>{{0, 2}},
                                                {{1, 3}},
                                                {{0, 0}},
                                                {{30, 3}},
                                                {{27, 6}},
                                                {{0, 6}, {3, 3}},
                                                {{~std::uint64_t{0} - 2, 6}}}) {
    SamplerPosition bad = decode_position(sampler.position());
    bad.again = again;
    EXPECT_THAT(failure_of<InputError>([&] { sampler.seek(encode(bad)); }), HasSubstr("dealt again"))
        << again.front().first;
  }
}

}  // namespace
}  // namespace kith::train

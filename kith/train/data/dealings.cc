#include "kith/train/data/dealings.h"

#include <algorithm>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"

namespace kith::train {
namespace {

// Where a batch lies that begins `ahead` samples into the ranges, which are whole batches.
std::uint64_t place_in(const std::vector<SampleRange>& ranges, std::uint64_t ahead) {
  for (const SampleRange& range : ranges) {
    if (ahead < range.count) return range.first + ahead;
    ahead -= range.count;
  }
  KITH_CHECK(false, "a batch that was dealt lies in what there was to deal");
  return 0;
}

// In ascending order, neighbours joined.
std::vector<SampleRange> joined(std::vector<SampleRange> ranges) {
  std::ranges::sort(ranges, {}, &SampleRange::first);
  std::vector<SampleRange> all;
  for (const SampleRange& range : ranges) {
    if (!all.empty() && all.back().first + all.back().count == range.first) {
      all.back().count += range.count;
    } else {
      all.push_back(range);
    }
  }
  return all;
}

// Takes words one after the other, and never more than there are.
class Words {
 public:
  explicit Words(std::span<const std::uint64_t> words) : words_(words) {}

  std::uint64_t next() {
    if (words_.empty()) throw Error("end too soon", "dealings of a newcomer");
    const std::uint64_t word = words_.front();
    words_ = words_.subspan(1);
    return word;
  }
  // Of things that have `words` each.
  std::uint64_t next_count(std::size_t words) {
    const std::uint64_t count = next();
    if (count > words_.size() / words) throw Error("end too soon", "dealings of a newcomer");
    return count;
  }

 private:
  std::span<const std::uint64_t> words_;
};

}  // namespace

Dealings::Dealings(const SamplerOptions& options, std::vector<WorkerId> members, SamplerPosition begin)
    : samples_(options.samples), batch_(options.batch), epoch_(begin.epoch) {
  dealings_.push_back({std::move(members), begin.drawn, begin.left(samples_)});
}

void Dealings::follow(const SamplerPosition& now) {
  if (now.epoch == epoch_) return;
  epoch_ = now.epoch;
  dealings_.erase(dealings_.begin(), dealings_.end() - 1);
  // A new epoch has nothing that is dealt again: the last members have drawn `used` of it, in turn.
  Dealing& last = dealings_.back();
  last.first = now.drawn - now.used / (last.members.size() * batch_);
  last.samples = {{0, samples_}};
}

void Dealings::add_dealt(WorkerId worker, std::uint64_t from, std::uint64_t end,
                         std::vector<SampleRange>& to) const {
  for (std::size_t k = 0; k < dealings_.size(); ++k) {
    const Dealing& dealing = dealings_[k];
    const std::uint64_t last = k + 1 < dealings_.size() ? dealings_[k + 1].first : end;
    const auto found = std::ranges::find(dealing.members, worker);
    if (found == dealing.members.end()) continue;
    const auto rank = static_cast<std::uint64_t>(found - dealing.members.begin());
    for (std::uint64_t b = std::max(from, dealing.first); b < last; ++b) {
      const std::uint64_t ahead = ((b - dealing.first) * dealing.members.size() + rank) * batch_;
      to.push_back({place_in(dealing.samples, ahead), batch_});
    }
  }
}

Dealings::Anew Dealings::deal(const SamplerPosition& now, std::vector<WorkerId> members,
                              std::span<const GoneWorker> gone) {
  follow(now);
  Anew anew{now, {}};
  std::vector<SampleRange> again = now.again;
  for (const GoneWorker& one : gone) {
    std::vector<SampleRange> lost;
    add_dealt(one.worker, one.batches, now.drawn, lost);
    const std::uint64_t all = now.drawn > one.batches ? (now.drawn - one.batches) * batch_ : 0;
    const std::uint64_t dealt = lost.size() * batch_;
    anew.unheard.push_back({dealt, all - std::min(all, dealt)});
    again.insert(again.end(), lost.begin(), lost.end());
  }
  anew.position.again = joined(std::move(again));
  dealings_.push_back({std::move(members), now.drawn, anew.position.left(samples_)});
  return anew;
}

std::vector<std::uint64_t> Dealings::words() const {
  std::vector<std::uint64_t> words{epoch_, dealings_.size()};
  for (const Dealing& dealing : dealings_) {
    words.push_back(dealing.members.size());
    for (const WorkerId member : dealing.members)
      words.push_back(static_cast<std::uint64_t>(member.value));
    words.insert(words.end(), {dealing.first, dealing.samples.size()});
    for (const SampleRange& range : dealing.samples)
      words.insert(words.end(), {range.first, range.count});
  }
  return words;
}

void Dealings::take_over(std::span<const std::uint64_t> words) {
  Words from(words);
  const std::uint64_t epoch = from.next();
  std::vector<Dealing> dealings(from.next_count(3));
  if (dealings.empty()) throw Error("there is none", "dealings of a newcomer");
  for (Dealing& dealing : dealings) {
    dealing.members.resize(from.next_count(1));
    for (WorkerId& member : dealing.members)
      member = WorkerId{static_cast<int>(from.next())};
    dealing.first = from.next();
    dealing.samples.resize(from.next_count(2));
    for (SampleRange& range : dealing.samples) {
      range.first = from.next();
      range.count = from.next();
    }
  }
  epoch_ = epoch;
  dealings_ = std::move(dealings);
}

}  // namespace kith::train

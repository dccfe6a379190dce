#include "kith/engine/bucketing.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/rng.h"

namespace kith::engine {
namespace {

constexpr std::size_t kAlignment = 64;

// Of a bucket: by so much it may be larger or smaller before a segment is split for it.
constexpr double kSlack = 0.1;

std::size_t padded(std::size_t count, DType type, std::size_t block) {
  const std::size_t grain = std::max(kAlignment / size_of(type), block);
  return (count + grain - 1) / grain * grain;
}

std::uint64_t digest_text(std::string_view text) {
  std::uint64_t h = text.size();
  for (char c : text)
    h = hash_words(h, static_cast<unsigned char>(c));
  return h;
}

}  // namespace

std::vector<BucketPlan> cut_buckets(std::span<const Segment> segments, std::size_t bytes, std::size_t block) {
  std::vector<BucketPlan> plans;
  std::map<DType, std::size_t> open;  // type -> index of the plan being filled
  for (std::size_t i = segments.size(); i-- > 0;) {
    const Segment& segment = segments[i];
    auto [at, fresh] = open.try_emplace(segment.type, plans.size());
    if (fresh) plans.push_back({segment.type, 0, {}});
    BucketPlan& plan = plans[at->second];
    plan.segments.push_back({i, plan.count, 0, segment.count});
    plan.count += padded(segment.count, segment.type, block);
    if (plan.count * size_of(segment.type) >= bytes) open.erase(at);
  }
  return plans;
}

std::vector<BucketPlan> cut_evenly(std::span<const Segment> segments, std::size_t bytes, std::size_t block) {
  // Of a type: the bucket being filled, and how far all of its buckets should reach when that one is closed.
  struct Open {
    std::size_t plan = 0;
    bool fresh = true;
    double filled = 0;  // bytes in all buckets of the type
    double target = 0;
  };
  const double slack = kSlack * static_cast<double>(bytes);
  std::vector<BucketPlan> plans;
  std::map<DType, Open> open;
  for (std::size_t i = segments.size(); i-- > 0;) {
    const Segment& segment = segments[i];
    const std::size_t element = size_of(segment.type);
    Open& at = open[segment.type];
    std::size_t from = 0;
    do {
      if (at.fresh) {
        at.plan = plans.size();
        at.fresh = false;
        at.target += static_cast<double>(bytes);
        plans.push_back({segment.type, 0, {}});
      }
      const double room = std::max(0.0, at.target - at.filled);
      std::size_t count = segment.count - from;
      if (static_cast<double>(count * element) > room + slack + kAlignment)
        count = std::min(count, padded(static_cast<std::size_t>(room) / element + 1, segment.type, block));
      BucketPlan& plan = plans[at.plan];
      plan.segments.push_back({i, plan.count, from, count});
      plan.count += padded(count, segment.type, block);
      from += count;
      at.filled += static_cast<double>(padded(count, segment.type, block) * element);
      at.fresh = at.filled >= at.target - slack;
    } while (from < segment.count);
  }
  return plans;
}

std::vector<BucketPlan> plans_of(const Cut& cut, std::span<const Segment> segments, std::size_t block) {
  const auto differs = [] {
    return InputError("cuts another model", "cut", "take it from an engine with the same parameters");
  };
  std::vector<BucketPlan> plans;
  std::vector<std::size_t> placed(segments.size(), 0);
  for (const std::vector<CutPart>& parts : cut) {
    if (parts.empty() || parts.front().segment >= segments.size()) throw differs();
    BucketPlan plan{segments[parts.front().segment].type, 0, {}};
    for (const auto& [segment, count] : parts) {
      if (segment >= segments.size() || segments[segment].type != plan.type ||
          count > segments[segment].count - placed[segment])
        throw differs();
      plan.segments.push_back({segment, plan.count, placed[segment], count});
      plan.count += padded(count, plan.type, block);
      placed[segment] += count;
    }
    plans.push_back(std::move(plan));
  }
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (placed[i] != segments[i].count) throw differs();
  }
  return plans;
}

Cut cut_of(std::span<const BucketPlan> plans) {
  Cut cut;
  for (const BucketPlan& plan : plans) {
    cut.emplace_back();
    for (const Placed& placed : plan.segments)
      cut.back().push_back({placed.segment, placed.count});
  }
  return cut;
}

bool BucketPlan::splits(std::span<const Segment> table) const {
  return std::any_of(segments.begin(), segments.end(),
                     [&](const Placed& placed) { return placed.count < table[placed.segment].count; });
}

std::uint64_t digest(const BucketPlan& plan, std::span<const Segment> segments) {
  std::uint64_t h = hash_words(plan.type, plan.count);
  for (const Placed& placed : plan.segments) {
    const Segment& segment = segments[placed.segment];
    h = hash_words(h, digest_text(segment.name), segment.count, segment.layout_digest, placed.from,
                   placed.count);
  }
  return h;
}

}  // namespace kith::engine

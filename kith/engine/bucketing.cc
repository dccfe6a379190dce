#include "kith/engine/bucketing.h"

#include <map>
#include <string_view>
#include <utility>

#include "kith/base/rng.h"

namespace kith::engine {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t padded(std::size_t count, DType type) {
  const std::size_t grain = kAlignment / size_of(type);
  return (count + grain - 1) / grain * grain;
}

std::uint64_t digest_text(std::string_view text) {
  std::uint64_t h = text.size();
  for (char c : text)
    h = hash_words(h, static_cast<unsigned char>(c));
  return h;
}

}  // namespace

std::vector<BucketPlan> cut_buckets(std::span<const Segment> segments, std::size_t bytes) {
  std::vector<BucketPlan> plans;
  std::map<DType, std::size_t> open;  // type -> index of the plan being filled
  for (std::size_t i = segments.size(); i-- > 0;) {
    const Segment& segment = segments[i];
    auto [at, fresh] = open.try_emplace(segment.type, plans.size());
    if (fresh) plans.push_back({segment.type, 0, {}});
    BucketPlan& plan = plans[at->second];
    plan.segments.push_back({i, plan.count});
    plan.count += padded(segment.count, segment.type);
    if (plan.count * size_of(segment.type) >= bytes) open.erase(at);
  }
  return plans;
}

std::uint64_t digest(const BucketPlan& plan, std::span<const Segment> segments) {
  std::uint64_t h = hash_words(plan.type, plan.count);
  for (const Placed& placed : plan.segments) {
    const Segment& segment = segments[placed.segment];
    h = hash_words(h, digest_text(segment.name), segment.count, segment.layout_digest);
  }
  return h;
}

}  // namespace kith::engine

#include "kith/plan/messages.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::plan {
namespace {

// int8: a byte each, four more for a block of 128. sign: a bit each, four bytes more for a block of 1024.
constexpr std::array kSizes{CodecSize{"int8", 1 + 4.0 / 128}, CodecSize{"sign", 1.0 / 8 + 4.0 / 1024}};

constexpr std::int64_t kRoundsLookedAt = 64;  // of long periods
constexpr Rank kWorkersLookedAt = 64;

// Vectors that the model of the network charges a worker for.
double charged(const graph::WorkerRound& round, Rank self) {
  if (round.form == graph::Form::neighbours) return static_cast<double>(round.reads.size());
  const auto members = static_cast<double>(round.group.size());
  return members <= 2 ? static_cast<double>(graph::reads_of(round, self).size())
                      : 2 * (members - 1) / members;
}

}  // namespace

std::span<const CodecSize> codec_sizes() {
  return kSizes;
}

double message_share(std::string_view codec, const graph::Schedule& schedule) {
  const auto* const size = std::ranges::find(kSizes, codec, &CodecSize::name);
  if (size == kSizes.end()) {
    std::vector<std::string> names;
    for (const CodecSize& known : kSizes)
      names.emplace_back(known.name);
    throw InputError(cat("codec '", codec, "' in a plan"), "codec", suggest(codec, names));
  }
  const std::int64_t rounds = std::min(schedule.period(), kRoundsLookedAt);
  double in_full = 0, coded = 0;
  for (Rank rank = 0; rank < std::min<Rank>(schedule.workers(), kWorkersLookedAt); ++rank) {
    std::set<Rank> read;
    for (std::int64_t t = 0; t < rounds; ++t) {
      const graph::WorkerRound round = schedule.round(rank, t);
      const std::vector<Rank> now = graph::reads_of(round, rank);
      read.insert(now.begin(), now.end());
      in_full += charged(round, rank) / static_cast<double>(rounds);
    }
    coded += static_cast<double>(read.size());
  }
  const double share = size->bytes_per_parameter / sizeof(float);
  return in_full > 0 ? share * coded / in_full : share;
}

}  // namespace kith::plan

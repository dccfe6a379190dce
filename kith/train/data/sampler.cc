#include "kith/train/data/sampler.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

constexpr const char* kPlace = "data position of the checkpoint";
constexpr std::size_t kFixedWords = 4;

std::uint64_t digest_of(const SamplerOptions& o) {
  return hash_words(o.samples, o.batch, o.seed);
}

std::uint64_t batches_in(const SamplerOptions& o) {
  KITH_CHECK(o.workers > 0 && o.batch > 0, "a sampler needs workers and a batch");
  KITH_CHECK(o.rank >= 0 && o.rank < o.workers, "a rank among the workers");
  const std::uint64_t together = static_cast<std::uint64_t>(o.workers) * o.batch;
  if (o.samples < together) {
    throw InputError(
        cat(o.samples, " samples do not fill one batch of ", o.batch, " on each of ", o.workers, " workers"),
        "train.batch", "a smaller batch, fewer workers, or more data");
  }
  return o.samples / together;
}

}  // namespace

std::vector<SampleRange> SamplerPosition::left(std::uint64_t samples) const {
  std::vector<SampleRange> ranges = again;
  if (used < samples) ranges.push_back({used, samples - used});
  return ranges;
}

std::vector<std::byte> encode(const SamplerPosition& position) {
  std::vector<std::uint64_t> words{position.digest, position.drawn, position.epoch, position.used};
  for (const SampleRange& range : position.again)
    words.insert(words.end(), {range.first, range.count});
  std::vector<std::byte> bytes(words.size() * sizeof(std::uint64_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

SamplerPosition decode_position(std::span<const std::byte> bytes) {
  constexpr std::size_t kFixed = kFixedWords * sizeof(std::uint64_t);
  if (bytes.size() < kFixed || (bytes.size() - kFixed) % (2 * sizeof(std::uint64_t)) != 0)
    throw InputError(
        cat(bytes.size(), " bytes, wanted ", kFixed, " and 16 for each range that is dealt again"), kPlace);
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  SamplerPosition position{words[0], words[1], words[2], words[3], {}};
  for (std::size_t k = kFixedWords; k < words.size(); k += 2)
    position.again.push_back({words[k], words[k + 1]});
  return position;
}

Sampler::Sampler(const SamplerOptions& options)
    : options_(options),
      together_(static_cast<std::uint64_t>(options.workers) * options.batch),
      batches_per_epoch_(batches_in(options)) {
  position_.digest = digest_of(options);
}

std::uint64_t Sampler::left() const {
  std::uint64_t left = options_.samples - position_.used;
  for (const SampleRange& range : position_.again)
    left += range.count;
  return left;
}

void Sampler::skip_rest() {
  if (left() >= together_) return;
  ++position_.epoch;
  position_.used = 0;
  position_.again.clear();
}

void Sampler::shuffle(std::uint64_t epoch) {
  order_.resize(options_.samples);
  std::iota(order_.begin(), order_.end(), std::uint64_t{0});
  Rng rng(hash_words(options_.seed, epoch));
  for (std::uint64_t left = options_.samples; left > 1; --left)
    std::swap(order_[left - 1], order_[rng.below(left)]);
  shuffled_epoch_ = epoch;
}

// Ranges are whole batches, so that no batch lies in two of them.
std::uint64_t Sampler::place(std::uint64_t ahead) const {
  for (const SampleRange& range : position_.again) {
    if (ahead < range.count) return range.first + ahead;
    ahead -= range.count;
  }
  return position_.used + ahead;
}

void Sampler::advance() {
  std::uint64_t dealt = together_;
  std::vector<SampleRange>& again = position_.again;
  while (dealt > 0 && !again.empty()) {
    const std::uint64_t taken = std::min(dealt, again.front().count);
    again.front() = {again.front().first + taken, again.front().count - taken};
    if (again.front().count == 0) again.erase(again.begin());
    dealt -= taken;
  }
  position_.used += dealt;
  ++position_.drawn;
  skip_rest();
}

std::span<const std::uint64_t> Sampler::next() {
  if (order_.empty() || shuffled_epoch_ != position_.epoch) shuffle(position_.epoch);
  const std::uint64_t first = place(static_cast<std::uint64_t>(options_.rank) * options_.batch);
  advance();
  return std::span(order_).subspan(first, options_.batch);
}

void Sampler::seek(std::span<const std::byte> bytes) {
  SamplerPosition read = decode_position(bytes);
  if (read.digest != position_.digest) {
    throw InputError("was taken with other data, batch or seed", kPlace, "go on with the run's own settings");
  }
  // Every epoch has a batch at least, and whoever dealt, dealt whole batches.
  if (read.epoch > read.drawn || read.used > options_.samples || read.used % options_.batch != 0)
    throw InputError(cat("epoch ", read.epoch, ", sample ", read.used, " is no place to be after ",
                         read.drawn, " batches"),
                     kPlace, "the checkpoint is damaged");
  std::vector<SampleRange> ordered = read.again;
  std::ranges::sort(ordered, {}, &SampleRange::first);
  std::uint64_t end = 0;
  for (const SampleRange& range : ordered) {
    const bool whole =
        range.count > 0 && range.count % options_.batch == 0 && range.first % options_.batch == 0;
    if (!whole || range.first < end || range.first > read.used || range.count > read.used - range.first)
      throw InputError(cat("samples ", range.first, " to ", range.first + range.count,
                           " cannot be dealt again after ", read.used),
                       kPlace, "the checkpoint is damaged");
    end = range.first + range.count;
  }
  position_ = std::move(read);
  skip_rest();
}

}  // namespace kith::train

#include "kith/train/data/sampler.h"

#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

struct Position {
  std::uint64_t digest;  // of the options: the same for every rank
  std::uint64_t drawn;
};

std::uint64_t digest_of(const SamplerOptions& o) {
  return hash_words(o.samples, o.workers, o.batch, o.seed);
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

Sampler::Sampler(const SamplerOptions& options)
    : options_(options), batches_per_epoch_(batches_in(options)) {}

void Sampler::shuffle(std::uint64_t epoch) {
  order_.resize(options_.samples);
  std::iota(order_.begin(), order_.end(), std::uint64_t{0});
  Rng rng(hash_words(options_.seed, epoch));
  for (std::uint64_t left = options_.samples; left > 1; --left)
    std::swap(order_[left - 1], order_[rng.below(left)]);
  shuffled_epoch_ = epoch;
}

std::span<const std::uint64_t> Sampler::next() {
  if (order_.empty() || shuffled_epoch_ != epoch()) shuffle(epoch());
  const std::uint64_t together = static_cast<std::uint64_t>(options_.workers) * options_.batch;
  const std::uint64_t first =
      (drawn_ % batches_per_epoch_) * together + static_cast<std::uint64_t>(options_.rank) * options_.batch;
  ++drawn_;
  return std::span(order_).subspan(first, options_.batch);
}

std::vector<std::byte> Sampler::position() const {
  const Position position{digest_of(options_), drawn_};
  std::vector<std::byte> bytes(sizeof position);
  std::memcpy(bytes.data(), &position, sizeof position);
  return bytes;
}

void Sampler::seek(std::span<const std::byte> position) {
  Position read{};
  if (position.size() != sizeof read) {
    throw InputError(cat(position.size(), " bytes, wanted ", sizeof read), "data position of the checkpoint");
  }
  std::memcpy(&read, position.data(), sizeof read);
  if (read.digest != digest_of(options_)) {
    throw InputError("was taken with other data, workers, batch or seed", "data position of the checkpoint",
                     "go on with the run's own settings");
  }
  drawn_ = read.drawn;
}

}  // namespace kith::train

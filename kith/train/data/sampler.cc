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
  std::uint64_t digest;  // of the options: the same for every rank, and for any number of workers
  std::uint64_t drawn;
  std::uint64_t epoch;
  std::uint64_t used;
};

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

Sampler::Sampler(const SamplerOptions& options)
    : options_(options),
      together_(static_cast<std::uint64_t>(options.workers) * options.batch),
      batches_per_epoch_(batches_in(options)) {}

void Sampler::skip_rest() {
  if (left() >= together_) return;
  ++epoch_;
  used_ = 0;
}

void Sampler::shuffle(std::uint64_t epoch) {
  order_.resize(options_.samples);
  std::iota(order_.begin(), order_.end(), std::uint64_t{0});
  Rng rng(hash_words(options_.seed, epoch));
  for (std::uint64_t left = options_.samples; left > 1; --left)
    std::swap(order_[left - 1], order_[rng.below(left)]);
  shuffled_epoch_ = epoch;
}

std::span<const std::uint64_t> Sampler::next() {
  if (order_.empty() || shuffled_epoch_ != epoch_) shuffle(epoch_);
  const std::uint64_t first = used_ + static_cast<std::uint64_t>(options_.rank) * options_.batch;
  ++drawn_;
  used_ += together_;
  skip_rest();
  return std::span(order_).subspan(first, options_.batch);
}

std::vector<std::byte> Sampler::position() const {
  const Position position{digest_of(options_), drawn_, epoch_, used_};
  std::vector<std::byte> bytes(sizeof position);
  std::memcpy(bytes.data(), &position, sizeof position);
  return bytes;
}

void Sampler::seek(std::span<const std::byte> position) {
  constexpr const char* kPlace = "data position of the checkpoint";
  Position read{};
  if (position.size() != sizeof read)
    throw InputError(cat(position.size(), " bytes, wanted ", sizeof read), kPlace);
  std::memcpy(&read, position.data(), sizeof read);
  if (read.digest != digest_of(options_)) {
    throw InputError("was taken with other data, batch or seed", kPlace, "go on with the run's own settings");
  }
  // Every epoch has a batch at least, and whoever dealt, dealt whole batches.
  if (read.epoch > read.drawn || read.used > options_.samples || read.used % options_.batch != 0)
    throw InputError(cat("epoch ", read.epoch, ", sample ", read.used, " is no place to be after ",
                         read.drawn, " batches"),
                     kPlace, "the checkpoint is damaged");
  drawn_ = read.drawn;
  epoch_ = read.epoch;
  used_ = read.used;
  skip_rest();
}

}  // namespace kith::train

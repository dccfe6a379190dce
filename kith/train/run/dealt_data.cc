#include "kith/train/run/dealt_data.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "kith/train/models/model.h"
#include "kith/train/run/gradient_pass.h"
#include "kith/train/run/job_options.h"

namespace kith::train {
namespace {

std::optional<Welcome> donors_welcome(const DecentralizedDataParallel& wrapped) {
  if (!wrapped.joined()) return std::nullopt;
  const std::vector<std::byte>& bytes = wrapped.resumed()->position;
  return decode_welcome({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

DealtData::DealtData(const Job& job, const Dataset& dataset, DecentralizedDataParallel& wrapped,
                     GradScaler& scaler)
    : job_(job),
      dataset_(dataset),
      wrapped_(wrapped),
      scaler_(scaler),
      donors_(donors_welcome(wrapped)),
      loader_(make_loader(first_sampler())),
      membership_(wrapped,
                  {sampler_options(job, dataset, 0), wrapped.world().members.workers,
                   decode_position(loader_->position())},
                  {job.train.accumulate, static_cast<std::size_t>(parameter_count(*wrapped.module()))}) {
  if (donors_) membership_.take_over(*donors_);
}

std::unique_ptr<Loader> DealtData::make_loader(Sampler sampler) const {
  return std::make_unique<Loader>(dataset_, std::move(sampler), LoaderOptions{.device = wrapped_.device()});
}

Sampler DealtData::first_sampler() {
  const auto& resumed = wrapped_.resumed();
  const engine::WorldParts& world = wrapped_.world();
  if (!resumed) return Sampler(sampler_options(job_, dataset_, world.rank()));
  if (donors_) {
    // Draws nothing before the data is dealt with this worker.
    if (scales_loss(job_)) scaler_.restore(donors_->scaler);
    Sampler sampler(sampler_options(job_, dataset_, 0));
    sampler.seek(encode(donors_->position));
    return sampler;
  }
  const std::size_t scaler = scales_loss(job_) ? scaler_.state().size() : 0;
  const std::span<const std::byte> position = resumed->position;
  const std::size_t split = position.size() - std::min(scaler, position.size());
  Sampler sampler = sampler_at(job_, dataset_, world, *resumed, position.first(split));
  if (scales_loss(job_)) scaler_.restore(position.subspan(split));
  return sampler;
}

std::vector<std::byte> DealtData::position() const {
  std::vector<std::byte> bytes = loader_->position();
  if (scales_loss(job_)) {
    const std::vector<std::byte> scaler = scaler_.state();
    bytes.insert(bytes.end(), scaler.begin(), scaler.end());
  }
  return bytes;
}

Welcome DealtData::welcome() const {
  Welcome welcome;
  membership_.put_into(welcome);
  welcome.position = decode_position(loader_->position());
  if (scales_loss(job_)) welcome.scaler = scaler_.state();
  others_.put(welcome);
  return welcome;
}

void DealtData::share(Others others) {
  others_ = std::move(others);
  wrapped_.give_position([this] {
    const std::string text = encode(welcome());
    const auto* const first = reinterpret_cast<const std::byte*>(text.data());
    return std::vector<std::byte>(first, first + text.size());
  });
  if (donors_) others_.take(*donors_);
}

std::optional<Membership::Settled> DealtData::settle() {
  std::optional<Membership::Settled> settled;
  const engine::WorldParts& world = wrapped_.world();
  if (membership_.comes()) {
    const Welcome welcome = await_welcome(world, membership_.attend(), wrapped_.engine().options().patience);
    settled = membership_.settle(welcome);
    others_.take(welcome);
  } else {
    settled = membership_.settle(decode_position(loader_->position()));
  }
  if (!settled) return std::nullopt;
  loader_ = make_loader(sampler_at(job_, dataset_, *settled));
  if (settled->newcomers) tell_welcome(world, welcome());
  return settled;
}

}  // namespace kith::train

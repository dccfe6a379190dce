// The wrapper's part in workers that come and leave: what the engine does not know of.
#include <cstring>
#include <sstream>
#include <string>
#include <utility>

#include <torch/serialize.h>
#include <torch/utils.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/train/data_parallel_impl.h"
#include "kith/train/named_blocks.h"
#include "kith/train/state_names.h"
#include "kith/train/tensor_bytes.h"

namespace kith::train {
namespace {

constexpr const char* kRun = "run";
constexpr const char* kWorkers = "workers";

std::vector<double> numbers_in(std::span<const std::byte> bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  return numbers;
}

}  // namespace

std::vector<std::byte> DecentralizedDataParallel::Impl::given_along() {
  NamedBlocks blocks;
  for (const auto& item : module_->named_buffers())
    if (item.value().defined()) blocks.add(kBufferPrefix + item.key(), bytes_of(item.value()));
  std::vector<double> rates;
  for (const ParameterGroup& group : groups_)
    rates.insert(rates.end(), {group.lr, group.weight_decay});
  blocks.add(kGroups, std::as_bytes(std::span(rates)));
  if (corrects_noise_) {
    const std::vector<double> noise = noise_.state();
    blocks.add(kNoise, std::as_bytes(std::span(noise)));
  }
  if (attached_) {
    torch::serialize::OutputArchive archive;
    attached_->save(archive);
    std::ostringstream out;
    archive.save_to(out);
    const std::string text = out.str();
    blocks.add(kOptimizer, std::as_bytes(std::span(text)));
  }
  blocks.add(kRun, std::as_bytes(std::span(run_)));
  const double workers = world_.size();
  blocks.add(kWorkers, std::as_bytes(std::span(&workers, 1)));
  if (position_) blocks.add(kPosition, position_());
  return blocks.take();
}

void DecentralizedDataParallel::Impl::take_along(const engine::Joined& joined) {
  const auto blocks = read_named_blocks(joined.extra);
  const auto block = [&](const std::string& name) {
    const auto found = blocks.find(name);
    return found == blocks.end() ? std::span<const std::byte>{} : found->second;
  };
  for (auto& item : module_->named_buffers()) {
    if (!item.value().defined()) continue;
    const auto bytes = block(kBufferPrefix + item.key());
    const torch::NoGradGuard no_grad;
    const torch::Tensor plain =
        torch::empty(item.value().sizes(), item.value().options().device(torch::kCPU));
    if (bytes.size() != plain.nbytes())
      throw InputError(cat("buffer ", item.key(), " has ", bytes.size(), " bytes in the job that it joins, ",
                           plain.nbytes(), " here"),
                       cat(world_.self()), "start it with the model of that job");
    std::memcpy(plain.data_ptr(), bytes.data(), bytes.size());
    item.value().copy_(plain);
  }
  const std::vector<double> rates = numbers_in(block(kGroups));
  for (std::size_t g = 0; g < groups_.size() && 2 * g + 1 < rates.size(); ++g) {
    groups_[g].lr = rates[2 * g];
    groups_[g].weight_decay = rates[2 * g + 1];
  }
  if (const auto noise = numbers_in(block(kNoise)); corrects_noise_ && !noise.empty()) noise_.restore(noise);
  const auto run = block(kRun);
  run_.assign(reinterpret_cast<const char*>(run.data()), run.size());
  const auto workers = numbers_in(block(kWorkers));
  const auto position = block(kPosition);
  const auto optimizer = block(kOptimizer);
  resumed_ = Resumed{joined.step,
                     {position.begin(), position.end()},
                     workers.empty() ? 1 : static_cast<int>(workers.front()),
                     {optimizer.begin(), optimizer.end()}};
  torch::manual_seed(hash_words(joined.step, world_.self().value));
}

void DecentralizedDataParallel::Impl::finish() {
  require_free("finish()");
  followed([&] { engine_->finish(); });
}

}  // namespace kith::train

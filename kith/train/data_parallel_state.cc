#include <cmath>
#include <random>
#include <sstream>
#include <utility>

#include <torch/serialize.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data_parallel_impl.h"
#include "kith/train/state_names.h"
#include "kith/train/tensor_bytes.h"

namespace kith::train {
namespace {

using StateBlock = DecentralizedDataParallel::StateBlock;

StateBlock owned_block(std::string name, const torch::Tensor& tensor) {
  StateBlock block{std::move(name), file_type_of(tensor), tensor.sizes().vec(), bytes_of(tensor), {}};
  if (block.type.empty()) {
    block.type = "U8";
    block.shape = {static_cast<std::int64_t>(block.owned.size())};
  }
  block.bytes = block.owned;
  return block;
}

StateBlock owned_block(std::string name, const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream out;
  archive.save_to(out);
  const std::string text = out.str();
  const auto bytes = std::as_bytes(std::span(text));
  StateBlock block{
      std::move(name), "U8", {static_cast<std::int64_t>(bytes.size())}, {bytes.begin(), bytes.end()}, {}};
  block.bytes = block.owned;
  return block;
}

}  // namespace

// The engine's state under names that do not depend on the engine's own, which changes with every edit.
std::vector<engine::StateSpan> DecentralizedDataParallel::Impl::engine_state() {
  std::vector<engine::StateSpan> spans = engine_->state();
  const std::size_t prefix = engine_->options().name.size() + 1;
  for (engine::StateSpan& span : spans)
    span.name = span.name.substr(prefix);
  return spans;
}

std::vector<StateTensor> DecentralizedDataParallel::Impl::engine_tensors() {
  const std::vector<engine::StateSpan> spans = engine_state();
  const auto plans =
      engine::plans_of(engine_->cut(), table_->segments(), engine::wire_block(engine_->options()));
  std::vector<NamedParameter> parameters;
  for (std::size_t i = 0; i < table_->size(); ++i) {
    const torch::Tensor& tensor = table_->tensor(i);
    // In storage order: a parameter that lies otherwise than row by row is saved flat.
    parameters.push_back({table_->name(i), tensor.is_contiguous()
                                               ? tensor.sizes().vec()
                                               : std::vector<std::int64_t>{tensor.numel()}});
  }
  return state_tensors({spans, plans, parameters, &engine_->options()});
}

std::vector<StateBlock> DecentralizedDataParallel::Impl::state() {
  require_free("saving");
  std::vector<StateBlock> blocks;
  device_->enter();
  for (const StateTensor& tensor : engine_tensors()) {
    StateBlock block{tensor.name, tensor.type, tensor.shape, {}, {}};
    if (tensor.pieces.size() == 1) {
      block.bytes = tensor.pieces.front();
    } else {
      block.owned.resize(tensor.bytes());
      tensor.copy_to(block.owned);
      block.bytes = block.owned;
    }
    blocks.push_back(std::move(block));
  }
  for (const auto& item : module_->named_buffers()) {
    if (item.value().defined()) blocks.push_back(owned_block(kBufferPrefix + item.key(), item.value()));
  }
  std::vector<double> numbers;
  for (const ParameterGroup& group : groups_)
    numbers.insert(numbers.end(), {group.lr, group.weight_decay});
  blocks.push_back(owned_block(kGroups, torch::tensor(numbers, torch::kFloat64).reshape({-1, 2})));
  if (corrects_noise_)
    blocks.push_back(owned_block(kNoise, torch::tensor(noise_.state(), torch::kFloat64).reshape({-1, 2})));
  blocks.push_back(owned_block(kRandomState, compat::random_state(torch::kCPU)));
  const torch::Device device = device_->torch_device();
  if (!device.is_cpu()) blocks.push_back(owned_block(kDeviceRandomState, compat::random_state(device)));
  if (attached_) blocks.push_back(owned_block(kOptimizer, *attached_));
  return blocks;
}

std::string DecentralizedDataParallel::Impl::run_id() {
  if (run_.empty()) {
    // As many bits as a double carries to the others.
    std::random_device random;
    const std::uint64_t drawn = (std::uint64_t{random()} << 32 | random()) >> 12;
    if (world_.extensible) {
      // Not by asking everybody: one that joins later finds it too.
      run_ = world_.store->set_once(cat("train/run-id/", options_.name), hex_of(drawn));
      return run_;
    }
    const double everybodys = gather(static_cast<double>(drawn)).front();
    if (std::isnan(everybodys))
      throw Error(cat(world_.members.at(0), " did not come"), cat(world_.self()),
                  "look at that worker's log");
    run_ = hex_of(static_cast<std::uint64_t>(everybodys));
  }
  return run_;
}

std::uint64_t DecentralizedDataParallel::Impl::agreement_number() {
  barrier("an agreement");
  return static_cast<std::uint64_t>(engine_->operations());
}

}  // namespace kith::train

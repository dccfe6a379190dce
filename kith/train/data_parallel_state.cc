#include <cstring>
#include <sstream>
#include <utility>

#include <torch/serialize.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/checkpoint_folder.h"
#include "kith/train/data_parallel_impl.h"

namespace kith::train {
namespace {

using StateBlock = DecentralizedDataParallel::StateBlock;

constexpr const char* kEnginePrefix = "engine/";
constexpr const char* kBufferPrefix = "buffer/";
constexpr const char* kRandomState = "random";
constexpr const char* kDeviceRandomState = "random/device";
constexpr const char* kGroups = "groups";
constexpr const char* kPosition = "position";
constexpr const char* kOptimizer = "optimizer";

std::vector<std::byte> bytes_of(const torch::Tensor& tensor) {
  const torch::Tensor plain = tensor.detach().cpu().contiguous();
  const auto* const first = static_cast<const std::byte*>(plain.data_ptr());
  return {first, first + plain.nbytes()};
}

StateBlock owned_block(std::string name, std::vector<std::byte> bytes) {
  StateBlock block{std::move(name), std::move(bytes), {}};
  block.bytes = block.owned;
  return block;
}

std::vector<std::byte> bytes_of(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream out;
  archive.save_to(out);
  const std::string text = out.str();
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

void copy_block(std::span<std::byte> to, std::span<const std::byte> from, const std::string& name) {
  if (to.size() != from.size()) {
    throw InputError(cat("block '", name, "' has ", from.size(), " bytes, this model needs ", to.size()),
                     "checkpoint", "resume with the model, algorithm and optimizer that were saved");
  }
  std::memcpy(to.data(), from.data(), to.size());
}

void read_tensor(torch::Tensor& to, std::span<const std::byte> from, const std::string& name) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor plain = torch::empty(to.sizes(), to.options().device(torch::kCPU));
  copy_block({static_cast<std::byte*>(plain.data_ptr()), plain.nbytes()}, from, name);
  to.copy_(plain);
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

std::vector<StateBlock> DecentralizedDataParallel::Impl::state() {
  require_free("saving");
  std::vector<StateBlock> blocks;
  device_->enter();
  for (const engine::StateSpan& span : engine_state())
    blocks.push_back({kEnginePrefix + span.name, {}, span.bytes});
  for (const auto& item : module_->named_buffers()) {
    if (item.value().defined())
      blocks.push_back(owned_block(kBufferPrefix + item.key(), bytes_of(item.value())));
  }
  blocks.push_back(owned_block(kRandomState, bytes_of(compat::random_state(torch::kCPU))));
  const torch::Device device = device_->torch_device();
  if (!device.is_cpu())
    blocks.push_back(owned_block(kDeviceRandomState, bytes_of(compat::random_state(device))));
  std::vector<double> numbers;
  for (const ParameterGroup& group : groups_)
    numbers.insert(numbers.end(), {group.lr, group.weight_decay});
  blocks.push_back(owned_block(kGroups, bytes_of(torch::tensor(numbers, torch::kFloat64))));
  if (attached_) blocks.push_back(owned_block(kOptimizer, bytes_of(*attached_)));
  return blocks;
}

// Everything that can be wrong with this worker's file is found here, before anything is changed.
WorkerFile DecentralizedDataParallel::Impl::read_own_file(const std::filesystem::path& folder) {
  const Manifest manifest = read_manifest(folder);
  if (manifest.workers() != world_.size()) {
    throw InputError(cat("was saved by ", manifest.workers(), " workers, this run has ", world_.size()),
                     folder.string(), cat("start ", manifest.workers(), " workers"));
  }
  WorkerFile file = read_worker_file(folder / worker_file_name(world_.rank()));
  const WorkerFileHeader expected{manifest.step, world_.rank(), world_.size()};
  if (file.digest != manifest.files[static_cast<std::size_t>(world_.rank())] || file.header != expected) {
    throw InputError("is not the file that the manifest names", (folder / file.digest.name).string(),
                     "files of different checkpoints were mixed");
  }
  for (const StateBlock& block : state()) {
    if (file.block(block.name).size() == block.bytes.size()) continue;
    throw InputError(cat("block '", block.name, "' has ", file.block(block.name).size(),
                         " bytes, this model needs ", block.bytes.size()),
                     (folder / file.digest.name).string(),
                     "resume with the model, algorithm and optimizer that were saved");
  }
  file.block(kPosition);
  return file;
}

void DecentralizedDataParallel::Impl::resume_from(const std::filesystem::path& folder) {
  std::optional<WorkerFile> file;
  std::string refusal;
  try {
    file = read_own_file(folder);
  } catch (const InputError& e) {
    refusal = e.what();
  }
  // Valid or refused as a whole: one worker's refusal is everybody's.
  const std::vector<double> steps = engine_->gather(file ? static_cast<double>(file->header.step) : -1.0);
  for (std::size_t rank = 0; rank < steps.size() && refusal.empty(); ++rank) {
    if (steps[rank] != static_cast<double>(file->header.step)) {
      refusal = cat(world_.members.at(static_cast<Rank>(rank)), " refused it, or did not come");
    }
  }
  if (!refusal.empty()) {
    const auto previous = previous_valid_checkpoint(folder);
    throw InputError(cat("checkpoint refused: ", refusal), folder.string(),
                     previous ? cat("go on from ", previous->string(), ", the newest valid one before it")
                              : "there is no older valid one beside it");
  }
  take_state(*file);
}

void DecentralizedDataParallel::Impl::take_state(const WorkerFile& file) {
  engine_->restore(file.header.step);
  for (const engine::StateSpan& span : engine_state())
    copy_block(span.bytes, file.block(kEnginePrefix + span.name), span.name);
  for (auto& item : module_->named_buffers()) {
    if (!item.value().defined()) continue;
    const std::string name = kBufferPrefix + item.key();
    read_tensor(item.value(), file.block(name), name);
  }
  const auto take_random = [&](torch::Device device, const char* name) {
    torch::Tensor random = compat::random_state(device);
    read_tensor(random, file.block(name), name);
    compat::set_random_state(device, random);
  };
  take_random(torch::kCPU, kRandomState);
  if (!device_->torch_device().is_cpu()) take_random(device_->torch_device(), kDeviceRandomState);
  const auto numbers = file.block(kGroups);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::memcpy(&groups_[g].lr, numbers.data() + 2 * g * sizeof(double), sizeof(double));
    std::memcpy(&groups_[g].weight_decay, numbers.data() + (2 * g + 1) * sizeof(double), sizeof(double));
  }
  const auto position = file.block(kPosition);
  resumed_ = Resumed{file.header.step, {position.begin(), position.end()}, {}};
  if (file.has(kOptimizer)) {
    const auto optimizer = file.block(kOptimizer);
    resumed_->optimizer.assign(optimizer.begin(), optimizer.end());
  }
  engine_->resume();
}

void DecentralizedDataParallel::Impl::attach(torch::optim::Optimizer& optimizer) {
  if (resumed_) {
    if (resumed_->optimizer.empty()) {
      throw InputError("holds no state of an optimizer", options_.resume_from.string(),
                       "it was saved without attach(); start anew, or go on without its moments");
    }
    const auto* const first = reinterpret_cast<const char*>(resumed_->optimizer.data());
    std::istringstream in(std::string(first, resumed_->optimizer.size()));
    torch::serialize::InputArchive archive;
    archive.load_from(in, device_->torch_device());
    optimizer.load(archive);
  }
  attached_ = &optimizer;
}

}  // namespace kith::train

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <utility>

#include <torch/serialize.h>
#include <torch/utils.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/optim/algorithm.h"
#include "kith/train/crc64.h"
#include "kith/train/data_parallel_impl.h"
#include "kith/train/state_names.h"

namespace kith::train {
namespace {

using StateBlock = DecentralizedDataParallel::StateBlock;

// A tensor's numbers. REQUIRES: its type is F32, F64 or I64.
std::vector<double> numbers_of(const NamedTensor& tensor) {
  const auto read = [&](auto example) {
    std::vector<decltype(example)> values(tensor.bytes.size() / sizeof example);
    std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof example);
    return std::vector<double>(values.begin(), values.end());
  };
  if (tensor.type == "F32") return read(float{});
  if (tensor.type == "F64") return read(double{});
  return read(std::int64_t{});
}

std::vector<std::byte> bytes_of(const std::vector<double>& numbers, const std::string& type) {
  const auto write = [&](auto example) {
    std::vector<decltype(example)> values;
    for (const double number : numbers)
      values.push_back(static_cast<decltype(example)>(number));
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  if (type == "F32") return write(float{});
  if (type == "F64") return write(double{});
  return write(std::int64_t{});
}

bool has_mean(const NamedTensor& tensor) {
  return tensor.type == "F32" || tensor.type == "F64";
}

void set_tensor(torch::Tensor& to, std::span<const std::byte> bytes) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor plain = torch::empty(to.sizes(), to.options().device(torch::kCPU));
  std::memcpy(plain.data_ptr(), bytes.data(), plain.nbytes());
  to.copy_(plain);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape)
    sizes.push_back(std::to_string(size));
  return cat("[", join(sizes), "]");
}

[[noreturn]] void refuse(const WorkerFile& file, const std::string& tensor, const std::string& problem,
                         const char* remedy = "the file is damaged, or somebody has changed it") {
  throw InputError(cat("tensor '", tensor, "' ", problem), file.path.string(), remedy);
}

}  // namespace

// What the bytes may say, where they have the right number.
void DecentralizedDataParallel::Impl::require_sound(const WorkerFile& file, const StateBlock& block,
                                                    bool same_workers) const {
  const NamedTensor& tensor = file.tensor(block.name);
  const auto all = [&](auto&& holds) { return std::ranges::all_of(numbers_of(tensor), holds); };
  if (block.name.starts_with("steps.")) {
    const auto most = static_cast<double>(file.header.step);
    if (!all([&](double n) { return n >= 0 && n <= most; }))
      refuse(file, block.name, cat("is not from 0 to ", file.header.step, ", the steps done"));
  } else if (block.name == "push_weight") {
    if (!all([](double n) { return std::isfinite(n) && n > 0; }))
      refuse(file, block.name, "has a number that is not above 0");
  } else if (block.name == kGroups) {
    if (!all([](double n) { return std::isfinite(n) && n >= 0; }))
      refuse(file, block.name, "has a learning rate or a weight decay that is negative or no number");
  } else if (block.name == kNoise) {
    if (!all([](double n) { return std::isfinite(n) && n >= 0; }))
      refuse(file, block.name, "has a number that is negative or none");
  } else if (block.name == kRandomState && same_workers) {
    torch::Tensor state = compat::random_state(torch::kCPU);
    set_tensor(state, tensor.bytes);
    if (!compat::is_random_state(state)) refuse(file, block.name, "is no state of torch's generator");
  }
}

void DecentralizedDataParallel::Impl::require_fits(const WorkerFile& file, bool same_workers) {
  constexpr const char* kSame = "resume with the model, algorithm and optimizer that were saved";
  std::vector<std::string> expected{kPosition, kDeviceRandomState, kOptimizer, kNoise};
  for (const StateBlock& block : state()) {
    expected.push_back(block.name);
    if (!same_workers && (block.name == kDeviceRandomState || block.name.starts_with(kReplicas))) continue;
    if (block.name == kNoise && !file.has(kNoise)) continue;  // one worker, or a kith that did not measure it
    const NamedTensor& tensor = file.tensor(block.name);
    // Other workers may have cut the model into another number of buckets.
    const bool any_length = block.name == "push_weight" && !same_workers && tensor.shape.size() == 1;
    if (tensor.type != block.type || (tensor.shape != block.shape && !any_length)) {
      refuse(file, block.name,
             cat("is ", tensor.type, shape_text(tensor.shape), ", this model needs ", block.type,
                 shape_text(block.shape)),
             kSame);
    }
    require_sound(file, block, same_workers);
  }
  const NamedTensor& position = file.tensor(kPosition);
  if (position.type != "U8") refuse(file, kPosition, "is not of type U8");
  if (file.has(kOptimizer) && file.tensor(kOptimizer).type != "U8")
    refuse(file, kOptimizer, "is not of type U8");
  for (const NamedTensor& tensor : file.tensors) {
    if (!same_workers && tensor.name.starts_with(kReplicas)) continue;
    if (std::ranges::find(expected, tensor.name) == expected.end())
      refuse(file, tensor.name, "has no place in this model", kSame);
  }
}

WorkerFile DecentralizedDataParallel::Impl::read_own_file(const std::filesystem::path& folder,
                                                          const Manifest& manifest) {
  if (!manifest.cut.empty()) {
    try {
      engine::plans_of(manifest.cut, table_->segments());
    } catch (const InputError&) {
      throw InputError("buckets are not those of this model", (folder / "manifest.json").string(),
                       "resume with the model that was saved");
    }
  }
  WorkerFile file = read_worker_file(folder, manifest, world_.rank());
  require_fits(file, true);
  return file;
}

DecentralizedDataParallel::Impl::Merged DecentralizedDataParallel::Impl::merge_files(
    const std::filesystem::path& folder, const Manifest& manifest) {
  Merged merged;
  merged.workers = manifest.workers();
  for (int rank = 0; rank < manifest.workers(); ++rank) {
    WorkerFile file = read_worker_file(folder, manifest, rank);
    require_fits(file, false);
    const auto add = [&](const NamedTensor& tensor) {
      const std::vector<double> numbers = numbers_of(tensor);
      std::vector<double>& sum = merged.sums[tensor.name];
      sum.resize(numbers.size());
      for (std::size_t k = 0; k < numbers.size(); ++k)
        sum[k] += numbers[k];
    };
    for (const StateTensor& state : engine_tensors()) {
      if (state.name.starts_with(kReplicas)) continue;
      const NamedTensor& tensor = file.tensor(state.name);
      if (state.merge == Merge::mean) add(tensor);
      if (state.merge != Merge::largest) continue;
      const auto own = static_cast<std::int64_t>(numbers_of(tensor).front());
      merged.largest[state.name] = std::max(merged.largest[state.name], own);
    }
    for (const NamedTensor& tensor : file.tensors) {
      if ((tensor.name.starts_with(kBufferPrefix) && has_mean(tensor)) || tensor.name == kNoise) add(tensor);
    }
    if (rank == 0) merged.first = std::move(file);
  }
  for (auto& [name, sum] : merged.sums) {
    for (double& number : sum)
      number /= merged.workers;
  }
  return merged;
}

void DecentralizedDataParallel::Impl::resume_from(const std::filesystem::path& folder) {
  std::optional<WorkerFile> file;
  std::optional<Merged> merged;
  std::string refusal;
  double step = -1;
  try {
    const Manifest manifest = read_manifest(folder);
    if (manifest.workers() == world_.size()) {
      file = read_own_file(folder, manifest);
    } else {
      merged = merge_files(folder, manifest);
    }
    run_ = manifest.run;
    step = static_cast<double>(manifest.step);
  } catch (const InputError& e) {
    refusal = e.what();
  }
  // Valid or refused as a whole: one worker's refusal is everybody's.
  const std::vector<double> steps = engine_->gather(step);
  for (std::size_t rank = 0; rank < steps.size() && refusal.empty(); ++rank) {
    if (steps[rank] != step)
      refusal = cat(world_.members.at(static_cast<Rank>(rank)), " refused it, or did not come");
  }
  if (!refusal.empty()) {
    const auto previous = previous_valid_checkpoint(folder);
    throw InputError(cat("checkpoint refused: ", refusal), folder.string(),
                     previous ? cat("go on from ", previous->string(), ", the newest valid one before it")
                              : "there is no older valid one beside it");
  }
  if (file) {
    take_state(*file);
  } else {
    take_merged(*merged);
  }
  engine_->resume();
  if (merged && world_.rank() == 0) say_what_is_not_kept(merged->workers);
}

void DecentralizedDataParallel::Impl::take_groups(const WorkerFile& file) {
  const std::vector<double> numbers = numbers_of(file.tensor(kGroups));
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].lr = numbers[2 * g];
    groups_[g].weight_decay = numbers[2 * g + 1];
  }
}

void DecentralizedDataParallel::Impl::note_resumed(const WorkerFile& file, int workers) {
  const auto position = file.tensor(kPosition).bytes;
  resumed_ = Resumed{file.header.step, {position.begin(), position.end()}, workers, {}};
  if (!file.has(kOptimizer)) return;
  const auto optimizer = file.tensor(kOptimizer).bytes;
  resumed_->optimizer.assign(optimizer.begin(), optimizer.end());
}

void DecentralizedDataParallel::Impl::attach(torch::optim::Optimizer& optimizer) {
  if (resumed_) {
    if (resumed_->optimizer.empty()) {
      throw InputError("holds no state of an optimizer", options_.resume_from.string(),
                       "it was saved without attach(); start anew, or go on without its moments");
    }
    const auto* const first = reinterpret_cast<const char*>(resumed_->optimizer.data());
    std::istringstream in(std::string(first, resumed_->optimizer.size()));
    try {
      torch::serialize::InputArchive archive;
      archive.load_from(in, device_->torch_device());
      optimizer.load(archive);
    } catch (const c10::Error& error) {
      throw InputError(cat("tensor 'optimizer' is no state of this one: ", error.what_without_backtrace()),
                       options_.resume_from.string(), "attach the optimizer that was saved");
    }
  }
  attached_ = &optimizer;
}

void DecentralizedDataParallel::Impl::take_state(const WorkerFile& file) {
  engine_->restore(file.header.step);
  for (const StateTensor& tensor : engine_tensors())
    tensor.copy_from(file.tensor(tensor.name).bytes);
  for (auto& item : module_->named_buffers()) {
    if (item.value().defined()) set_tensor(item.value(), file.tensor(kBufferPrefix + item.key()).bytes);
  }
  const auto take_random = [&](torch::Device device, const char* name) {
    torch::Tensor random = compat::random_state(device);
    set_tensor(random, file.tensor(name).bytes);
    compat::set_random_state(device, random);
  };
  take_random(torch::kCPU, kRandomState);
  if (corrects_noise_ && file.has(kNoise)) noise_.restore(numbers_of(file.tensor(kNoise)));
  if (!device_->torch_device().is_cpu()) take_random(device_->torch_device(), kDeviceRandomState);
  take_groups(file);
  note_resumed(file, world_.size());
}

void DecentralizedDataParallel::Impl::take_merged(const Merged& merged) {
  const WorkerFile& first = merged.first;
  engine_->restore(first.header.step);
  for (const StateTensor& tensor : engine_tensors()) {
    if (tensor.name.starts_with(kReplicas)) continue;  // the first messages make them anew
    std::size_t count = tensor.bytes() / bytes_of_type(tensor.type);
    std::vector<double> numbers(count, tensor.first);
    if (tensor.merge == Merge::mean) numbers = merged.sums.at(tensor.name);
    if (tensor.merge == Merge::largest) numbers = {static_cast<double>(merged.largest.at(tensor.name))};
    tensor.copy_from(bytes_of(numbers, tensor.type));
  }
  for (auto& item : module_->named_buffers()) {
    if (!item.value().defined()) continue;
    const NamedTensor& saved = first.tensor(kBufferPrefix + item.key());
    if (has_mean(saved)) {
      set_tensor(item.value(), bytes_of(merged.sums.at(saved.name), saved.type));
    } else {
      set_tensor(item.value(), saved.bytes);
    }
  }
  take_groups(first);
  if (corrects_noise_ && merged.sums.contains(kNoise)) noise_.restore(merged.sums.at(kNoise));
  torch::manual_seed(hash_words(crc64(first.tensor(kRandomState).bytes), first.header.step, world_.rank()));
  note_resumed(first, merged.workers);
}

// After resume(): on a GPU, asking for the state makes the host's copy of it anew.
void DecentralizedDataParallel::Impl::say_what_is_not_kept(int workers) {
  const auto say = [&](const std::string& what) {
    world_.log->warning(cat("saved by ", workers, " workers, goes on with ", world_.size(), ": ", what));
  };
  say("each one's own model is not kept, all begin with the mean");
  std::vector<std::string> means;
  std::vector<std::string> resets;
  std::size_t count = 0;
  for (const engine::StateSpan& span : engine_state())
    count += span.name.starts_with("bucket0/state") ? 1 : 0;
  for (const StateName& state : state_names(engine_->options(), count))
    (state.begins_anew ? resets : means).push_back(state.name);
  if (!means.empty())
    say(cat("each one's own ", join(means), " is not kept, all begin with the means; counts of steps stay"));
  if (!resets.empty()) say(cat(join(resets), " are not kept, they begin at zero"));
  if (optim::make_algorithm<float>(engine_->options().algorithm)->needs_directed_schedule())
    say("push-sum weights are not kept, they begin at 1");
  if (!module_->named_buffers().is_empty())
    say("each one's own buffers are not kept, all begin with the means; what is no float is worker 0's");
  if (!resumed_->optimizer.empty()) say("each one's own optimizer is not kept, all begin with worker 0's");
  say("the states of the random generators are not kept, they are seeded anew");
}

}  // namespace kith::train

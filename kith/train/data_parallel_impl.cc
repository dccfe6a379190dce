#include "kith/train/data_parallel_impl.h"

#include <algorithm>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/engine/bucketing.h"
#include "kith/gossip/machine_reducer.h"
#include "kith/train/checkpoint_folder.h"

namespace kith::train {
namespace {

// By rank.
std::vector<int> machines_of(const engine::WorldParts& world) {
  return gossip::machines_of(*world.transport, world.members);
}

// The buckets of the run that goes on: push-sum weights are theirs. All workers read the same manifest, so
// they agree. What is wrong with it is found and told when the checkpoint is read. Other workers cut anew.
engine::Cut saved_cut(const std::filesystem::path& checkpoint, const ParameterTable& table, int workers) {
  try {
    const Manifest manifest = read_manifest(checkpoint);
    if (manifest.workers() != workers) return {};
    engine::plans_of(manifest.cut, table.segments());
    return manifest.cut;
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace

DecentralizedDataParallel::Impl::Impl(std::shared_ptr<torch::nn::Module> module,
                                      const engine::WorldParts& world, Options options)
    : module_(std::move(module)),
      world_(world),
      options_(std::move(options)),
      engine_options_(engine_options(options_, machines_of(world), *world.log)),
      table_(std::make_unique<ParameterTable>(*module_)),
      noise_(table_->size(), agree_inside()),
      corrects_noise_(noise_shortens_steps()) {
  device_ = make_model_device(table_->device());
  make_groups();
  const bool joins = world_.newcomer;
  const bool fresh = options_.resume_from.empty() || joins;
  if (!fresh) cut_ = saved_cut(options_.resume_from, *table_, world_.size());
  build_engine();
  const bool shares_buffers = fresh && !joins && options_.same_start && world_.size() > 1;
  if (shares_buffers || options_.buffers == BufferPolicy::averaged) {
    buffer_mean_ = std::make_unique<BufferMean>(*module_);
  }
  if (joins) {
    take_along(*engine_->joined());
    world_.members = engine_->world().members;
    world_.newcomer = false;
    joined_ = true;
  } else if (fresh) {
    engine_->start();
    if (shares_buffers) buffer_mean_->share_start(*engine_);
  } else {
    resume_from(options_.resume_from);
  }
  if (options_.buffers == BufferPolicy::local) buffer_mean_.reset();
  find_places();
  point_at_engine();
  hook_gradients();
}

DecentralizedDataParallel::Impl::~Impl() {
  hooks_.clear();
  release_to_torch();
}

void DecentralizedDataParallel::Impl::make_groups() {
  for (const GroupOptions& group : options_.groups) {
    groups_.push_back(
        {group.name, {}, group.lr.value_or(options_.lr), group.weight_decay.value_or(options_.weight_decay)});
  }
  groups_.push_back({"default", {}, options_.lr, options_.weight_decay});
  for (std::size_t i = 0; i < table_->size(); ++i) {
    std::size_t g = 0;
    while (g < options_.groups.size() && !options_.groups[g].takes(table_->name(i), table_->tensor(i)))
      ++g;
    group_of_.push_back(g);
    groups_[g].parameters.push_back(table_->name(i));
  }
}

void DecentralizedDataParallel::Impl::build_engine() {
  engine::EngineOptions own = engine_options_;
  if (engine_) own.schedule.shape = engine_->options().schedule.shape;  // of the members that are left
  engine_.reset();
  if (!cut_.empty()) own.cut = cut_;
  if (edits_ > 0) own.name += cat("#", edits_);  // windows of one transport have different names
  device_->enter();
  engine_ = std::make_unique<engine::Engine>(world_, own, table_->segments(), device_->device());
  engine_->give_along([this] { return given_along(); });
  gradients_.assign(table_->size(), {});
  arrived_.assign(table_->size(), false);
}

void DecentralizedDataParallel::Impl::find_places() {
  places_.assign(table_->size(), {});
  in_window_.assign(table_->size(), false);
  for (std::size_t i = 0; i < table_->size(); ++i) {
    in_window_[i] = engine_->data(i) != table_->tensor(i).data_ptr();
    if (!in_window_[i]) {
      places_[i].push_back(table_->present_memory(i));
      continue;
    }
    for (void* place : engine_->places(i))
      places_[i].push_back(table_->wrap(i, place));
  }
}

void DecentralizedDataParallel::Impl::point_at_engine() {
  device_->leave();
  for (std::size_t i = 0; i < table_->size(); ++i) {
    const void* const now = engine_->data(i);
    if (table_->tensor(i).data_ptr() == now) {
      table_->note_written(i);
      continue;
    }
    for (const torch::Tensor& flat : places_[i]) {
      if (flat.data_ptr() == now) table_->point(i, flat);
    }
  }
  table_->record_versions();
}

void DecentralizedDataParallel::Impl::follow_view() {
  if (engine_->world().members.view == world_.members.view) return;
  world_.members = engine_->world().members;
  find_places();
  point_at_engine();
}

// The module outlives the engine's windows: whatever lies there moves to memory of torch's own.
void DecentralizedDataParallel::Impl::release_to_torch() {
  const torch::NoGradGuard no_grad;
  device_->leave();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!in_window_[i]) continue;
    const torch::Tensor flat = table_->own_memory(i);
    flat.copy_(table_->wrap(i, engine_->data(i)));
    table_->point(i, flat);
  }
  table_->record_versions();
  places_.clear();
  device_->enter();  // the engine's memory goes after the copies
}

void DecentralizedDataParallel::Impl::require_free(const char* what) const {
  if (averaging_)
    throw InputError(cat(what, " under the guard average()"), cat(world_.self()), "let the guard end first");
  if (editing_) {
    throw InputError(cat(what, " under the guard edit()"), cat(world_.self()),
                     "let the guard end first; one that an exception ended leaves the wrapper of no use");
  }
}

}  // namespace kith::train

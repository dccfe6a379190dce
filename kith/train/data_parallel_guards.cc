#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data_parallel_impl.h"

namespace kith::train {

void DecentralizedDataParallel::Impl::barrier(const char* what) {
  const std::vector<double> all = gather(0);
  for (Rank rank = 0; rank < static_cast<Rank>(all.size()); ++rank) {
    if (std::isnan(all[static_cast<std::size_t>(rank)])) {
      throw Error(cat(world_.members.at(rank), " did not come"), cat(world_.self(), ", ", what),
                  "look at that worker's log");
    }
  }
}

double DecentralizedDataParallel::Impl::consensus_distance() {
  device_->enter();
  return followed([&] { return engine_->consensus_distance(); });
}

std::vector<double> DecentralizedDataParallel::Impl::gather(double value) {
  return followed([&] { return engine_->gather(value); });
}

double DecentralizedDataParallel::Impl::begin_average() {
  require_free("average()");
  table_->require_untouched();
  std::vector<torch::Tensor> means;
  std::vector<void*> to;
  for (std::size_t i = 0; i < table_->size(); ++i) {
    means.push_back(table_->own_memory(i));
    to.push_back(means.back().data_ptr());
  }
  device_->enter();
  const double distance = followed([&] { return engine_->average(to); });
  device_->leave();
  if (buffer_mean_) followed([&] { buffer_mean_->average(*engine_); });
  for (std::size_t i = 0; i < table_->size(); ++i)
    table_->point(i, means[i]);
  table_->record_versions();
  averaging_ = true;
  return distance;
}

void DecentralizedDataParallel::Impl::end_average() {
  averaging_ = false;
  if (buffer_mean_) buffer_mean_->restore();
  point_at_engine();
}

void DecentralizedDataParallel::Impl::begin_edit() {
  require_free("edit()");
  table_->require_untouched();
  barrier("edit()");  // from here on nobody reads what is published
  hooks_.clear();
  release_to_torch();
  editing_ = true;
}

// What was published is out of date, and a wire may hold a rounded copy of it: the engine is built anew
// around the edited parameters and takes over the rest of the old one's state. Opening its windows is what
// the workers meet at.
void DecentralizedDataParallel::Impl::end_edit() {
  const std::int64_t steps = engine_->steps();
  std::map<std::string, std::vector<std::byte>> kept;
  for (const engine::StateSpan& span : engine_state())
    kept[span.name].assign(span.bytes.begin(), span.bytes.end());
  ++edits_;
  table_ = std::make_unique<ParameterTable>(*module_);
  if (table_->device() != device_->torch_device()) {
    throw InputError(
        cat("the module is on ", table_->device().str(), ", was on ", device_->torch_device().str()),
        "edit()", "an edit changes values, not where they lie");
  }
  cut_ = engine_->cut();
  build_engine();
  engine_->restore(steps);
  for (const engine::StateSpan& span : engine_state()) {
    const std::vector<std::byte>& old = kept[span.name];
    if (old.size() != span.bytes.size()) {
      throw InputError(cat("state '", span.name, "' had ", old.size(), " bytes, has ", span.bytes.size()),
                       "edit()", "an edit changes values, not shapes or types");
    }
    if (!is_model(span))
      std::memcpy(span.bytes.data(), old.data(), old.size());  // restore() took the edited model
  }
  engine_->resume();
  find_places();
  point_at_engine();
  hook_gradients();
  editing_ = false;
}

}  // namespace kith::train

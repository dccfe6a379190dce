#include "kith/train/data_parallel.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data_parallel_impl.h"

namespace kith::train {

GroupOptions named_group(std::string group, std::vector<std::string> parameters) {
  return {std::move(group),
          [parameters = std::move(parameters)](const std::string& name, const torch::Tensor&) {
            return std::find(parameters.begin(), parameters.end(), name) != parameters.end();
          },
          {},
          {}};
}

using Wrapper = DecentralizedDataParallel;

Wrapper::DecentralizedDataParallel(std::shared_ptr<torch::nn::Module> module, const engine::WorldParts& world,
                                   Options options)
    : impl_(std::make_unique<Impl>(std::move(module), world, std::move(options))) {}
Wrapper::DecentralizedDataParallel(std::shared_ptr<torch::nn::Module> module, const launch::World& world,
                                   Options options)
    : Wrapper(std::move(module), engine::seen_by_engine(world), std::move(options)) {}
Wrapper::~DecentralizedDataParallel() = default;

const std::shared_ptr<torch::nn::Module>& Wrapper::module() const {
  return impl_->module_;
}
const Options& Wrapper::options() const {
  return impl_->options_;
}
const engine::WorldParts& Wrapper::world() const {
  return impl_->world_;
}
void Wrapper::train(bool on) {
  impl_->module_->train(on);
}
void Wrapper::zero_grad(bool set_to_none) {
  impl_->table_->zero_gradients(set_to_none);
}
StepReport Wrapper::step(const StepOptions& options) {
  return impl_->step(options);
}
StepReport Wrapper::step(torch::optim::Optimizer& optimizer, const StepOptions& options) {
  return impl_->step(optimizer, options);
}
void Wrapper::attach(torch::optim::Optimizer& optimizer) {
  impl_->attach(optimizer);
}
void Wrapper::sync_gradients() {
  impl_->sync_gradients();
}
std::int64_t Wrapper::steps() const {
  return impl_->engine_->steps();
}
std::vector<ParameterGroup>& Wrapper::parameter_groups() {
  return impl_->groups_;
}
const std::optional<Resumed>& Wrapper::resumed() const {
  return impl_->resumed_;
}
bool Wrapper::joined() const {
  return impl_->joined_;
}
void Wrapper::give_position(std::function<std::vector<std::byte>()> position) {
  impl_->position_ = std::move(position);
}
void Wrapper::finish() {
  impl_->finish();
}
const engine::Engine& Wrapper::engine() const {
  return *impl_->engine_;
}
torch::Device Wrapper::device() const {
  return impl_->device_->torch_device();
}
void Wrapper::measure_noise(double share) {
  impl_->measure_noise(share);
}
bool Wrapper::corrects_noise() const {
  return impl_->corrects_noise_;
}
double Wrapper::rate_factor(const std::string& parameter) {
  return impl_->rate_factor(parameter);
}
double Wrapper::noise_share() {
  return impl_->noise_.whole_share();
}
PendingValue Wrapper::read(const torch::Tensor& numbers) {
  return impl_->device_->read(numbers);
}
double Wrapper::consensus_distance() {
  return impl_->consensus_distance();
}
std::vector<double> Wrapper::gather(double value) {
  return impl_->gather(value);
}
void Wrapper::barrier() {
  impl_->barrier("barrier()");
}
std::vector<Wrapper::StateBlock> Wrapper::state() {
  return impl_->state();
}
std::string Wrapper::run_id() {
  return impl_->run_id();
}
std::uint64_t Wrapper::agreement_number() {
  return impl_->agreement_number();
}

void Wrapper::clip_grad_norm(double max_norm) {
  if (!(max_norm > 0)) throw InputError(cat("norm ", max_norm), "clip_grad_norm", "a number above 0");
  impl_->max_norm_ = max_norm;
}

void Wrapper::set_lr(double lr) {
  for (ParameterGroup& group : impl_->groups_)
    group.lr = lr;
}

Wrapper::NoSync::NoSync(DecentralizedDataParallel& model) : model_(model) {
  ++model_.impl_->no_sync_depth_;
}
Wrapper::NoSync::~NoSync() {
  --model_.impl_->no_sync_depth_;
}

Wrapper::Average::Average(DecentralizedDataParallel& model)
    : model_(model), consensus_distance_(model.impl_->begin_average()) {}
Wrapper::Average::~Average() {
  model_.impl_->end_average();
}

Wrapper::Edit::Edit(DecentralizedDataParallel& model)
    : model_(model), exceptions_(std::uncaught_exceptions()) {
  model_.impl_->begin_edit();
}
Wrapper::Edit::~Edit() noexcept(false) {
  // While an exception is on its way out, meeting the other workers would only hold it up.
  if (std::uncaught_exceptions() == exceptions_) model_.impl_->end_edit();
}

}  // namespace kith::train

#include <algorithm>
#include <cmath>
#include <future>
#include <utility>

#include <torch/optim/lbfgs.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/optim/algorithm.h"
#include "kith/train/data_parallel_impl.h"

namespace kith::train {
namespace {

DType type_of(const torch::Tensor& gradient) {
  switch (gradient.scalar_type()) {
    case torch::kFloat64:
      return DType::f64;
    case torch::kBFloat16:
      return DType::bf16;
    case torch::kFloat16:
      return DType::f16;
    default:
      return DType::f32;
  }
}

void require_one_evaluation(const torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<const torch::optim::LBFGS*>(&optimizer)) {
    throw InputError(
        "LBFGS evaluates the loss again and again within a step, at models that no neighbour has",
        "step(optimizer)", "an optimizer that steps once from the gradients");
  }
}

}  // namespace

// Synced gradients are read again, as the user has left them; a frozen parameter has its mean here alone.
engine::SegmentInput DecentralizedDataParallel::Impl::input(std::size_t i) {
  if (synced_ ? !table_->frozen(i) : !arrived_[i]) gradients_[i] = table_->gradient(i);
  const ParameterGroup& group = groups_[group_of_[i]];
  engine::SegmentInput input;
  const double factor = rate_factor(i);
  input.lr = factor * group.lr;
  // Decoupled decay is no matter of noise: lr * decay stays what it was.
  input.decay = options_.optimizer.ends_with("adamw") ? group.weight_decay / factor : group.weight_decay;
  if (!gradients_[i].defined()) return input;
  input.gradient = gradients_[i].data_ptr();
  input.gradient_type = type_of(gradients_[i]);
  return input;
}

// Gradient tracking steps by an estimate of everybody's mean.
NoiseMeter::Agree DecentralizedDataParallel::Impl::agree_inside() {
  if (!engine::nodes_are_models(engine_options_)) return {};
  return [this](std::span<double> numbers) { return engine_->average_inside(numbers); };
}

bool DecentralizedDataParallel::Impl::noise_shortens_steps() const {
  return options_.optimizer != "sgd" && !engine_options_.external_optimizer &&
         (world_.size() > 1 || world_.newcomer) &&
         optim::exchange_of(engine_options_.algorithm) == optim::Exchange::models &&
         !optim::make_algorithm<float>(engine_options_.algorithm)->mixes_gradients();
}

double DecentralizedDataParallel::Impl::rate_factor(std::size_t i) {
  if (!corrects_noise_) return 1;
  return noise_rate(noise_.share(i), world_.size(), workers_of_node());
}

int DecentralizedDataParallel::Impl::workers_of_node() const {
  if (!engine::nodes_are_models(engine_options_)) return 1;
  const graph::Shape& shape = engine_->options().schedule.shape;
  return shape.size_of(shape.node_of(world_.rank()));
}

// In the first step of a view the engine sees to it that a node has one rate.
void DecentralizedDataParallel::Impl::collect_noise() {
  const std::uint32_t view = engine_->world().members.view;
  if (corrects_noise_ && noise_view_ != view && engine_->steps() > engine_->view_began()) {
    noise_.agree_anew();
    noise_view_ = view;
  }
  noise_.collect();
}

double DecentralizedDataParallel::Impl::rate_factor(const std::string& parameter) {
  for (std::size_t i = 0; i < table_->size(); ++i) {
    if (std::ranges::find(table_->names(i), parameter) != table_->names(i).end()) return rate_factor(i);
  }
  throw InputError(cat("the module has no parameter '", parameter, "'"), "rate_factor",
                   "a name of named_parameters()");
}

void DecentralizedDataParallel::Impl::measure_noise(double share) {
  if (!(share > 0 && share < 1))
    throw InputError(cat("a share of ", share), "measure_noise", "more than 0 and less than 1 of the batch");
  if (!corrects_noise_) return;
  std::vector<torch::Tensor> gradients;
  for (std::size_t i = 0; i < table_->size(); ++i)
    gradients.push_back(table_->gradient(i));
  noise_.take_part(gradients, share);
}

std::vector<engine::SegmentInput> DecentralizedDataParallel::Impl::inputs() {
  // Here and in no hook: it may wait for the node's others, and workers that are threads share the thread in
  // which torch calls the hooks of a GPU.
  collect_noise();
  std::vector<engine::SegmentInput> all;
  for (std::size_t i = 0; i < table_->size(); ++i)
    all.push_back(input(i));
  return all;
}

void DecentralizedDataParallel::Impl::hook_gradients() {
  if (!reduces()) return;
  hooks_.resize(table_->size());
  for (std::size_t i = 0; i < table_->size(); ++i) {
    // Several tensors over one memory: their gradients are summed at the step.
    if (hooks_[i] || table_->aliased(i) || !table_->tensor(i).requires_grad()) continue;
    hooks_[i] = std::make_unique<compat::GradientHook>(table_->tensor(i), [this, i] { gradient_arrived(i); });
  }
}

void DecentralizedDataParallel::Impl::gradient_arrived(std::size_t i) {
  if (no_sync_depth_ > 0) return;
  if (arrived_[i]) {
    throw InputError(
        "has a second gradient in one step", cat("parameter ", table_->name(i)),
        "step() follows every backward(); put all but the last backward of a step under no_sync()");
  }
  const engine::SegmentInput ready = input(i);
  arrived_[i] = true;
  device_->enter();
  engine_->gradient_ready(i, ready);
}

void DecentralizedDataParallel::Impl::require_steppable() {
  require_free("step()");
  if (no_sync_depth_ > 0) {
    throw InputError("step() under the guard no_sync()", cat(world_.self()),
                     "the last backward of a step runs outside it");
  }
  table_->require_untouched();
}

void DecentralizedDataParallel::Impl::sync_gradients() {
  if (!reduces() || synced_) return;
  require_free("sync_gradients()");
  if (no_sync_depth_ > 0) {
    throw InputError("sync_gradients() under the guard no_sync()", cat(world_.self()),
                     "the last backward of a step runs outside it");
  }
  const std::vector<engine::SegmentInput> own = inputs();
  noise_.take_whole(gradients_, *device_);
  std::vector<torch::Tensor> means;
  std::vector<void*> to;
  for (std::size_t i = 0; i < table_->size(); ++i) {
    means.push_back(table_->gradient_lies_at(i, own[i].gradient) ? gradients_[i] : table_->own_memory(i));
    to.push_back(means.back().data_ptr());
  }
  device_->enter();
  const std::vector<bool> there = followed([&] { return engine_->mean_gradients(own, to); });
  device_->leave();
  for (std::size_t i = 0; i < table_->size(); ++i) {
    gradients_[i] = there[i] ? means[i] : torch::Tensor();
    if (there[i]) table_->set_gradient(i, means[i]);
  }
  arrived_.assign(table_->size(), true);
  synced_ = true;
}

StepReport DecentralizedDataParallel::Impl::finish_step(StepReport report) {
  arrived_.assign(table_->size(), false);
  gradients_.assign(table_->size(), {});
  synced_ = false;
  point_at_engine();
  hook_gradients();
  if (!report.lost.empty() && options_.on_lost == OnLost::fail) {
    throw Error(cat(report.lost.front(), " is gone"), cat(world_.self(), ", step ", report.step),
                "look at that worker's log; go on from the last checkpoint");
  }
  return report;
}

StepReport DecentralizedDataParallel::Impl::step(const StepOptions& step_options) {
  require_steppable();
  if (engine_options_.external_optimizer) {
    throw InputError("step() without an optimizer, for a model with optimizer 'external'", cat(world_.self()),
                     "step(optimizer)");
  }
  const std::vector<engine::SegmentInput> own = inputs();
  noise_.take_whole(gradients_, *device_);
  device_->enter();
  const engine::StepOptions now{step_options.gradient_scale, std::exchange(max_norm_, {}),
                                options_.non_finite};
  return finish_step(followed([&] { return engine_->step(own, now); }));
}

DecentralizedDataParallel::Impl::Prepared DecentralizedDataParallel::Impl::prepare_gradients(
    const StepOptions& step_options) {
  const std::optional<double> max_norm = std::exchange(max_norm_, {});
  double scale = step_options.gradient_scale;
  Prepared prepared;
  if (max_norm || options_.non_finite == NonFinite::skip) {
    device_->enter();
    const double norm = scale * followed([&] { return engine_->gradient_norm(inputs()); });
    device_->leave();
    std::promise<double> known;
    known.set_value(norm);
    prepared.norm = known.get_future().share();
    prepared.skip = options_.non_finite == NonFinite::skip && !std::isfinite(norm);
    if (max_norm) scale *= std::min(1.0, *max_norm / (norm + 1e-6));
  }
  if (!prepared.skip && scale != 1) table_->scale_gradients(scale);
  return prepared;
}

StepReport DecentralizedDataParallel::Impl::step(torch::optim::Optimizer& optimizer,
                                                 const StepOptions& step_options) {
  require_steppable();
  if (!engine_options_.external_optimizer) {
    throw InputError(cat("the model was built for optimizer '", options_.optimizer, "'"), "step(optimizer)",
                     "build it with .optimizer = \"external\"");
  }
  require_one_evaluation(optimizer);
  sync_gradients();
  const Prepared prepared = prepare_gradients(step_options);
  if (!prepared.skip) optimizer.step();
  table_->require_in_place();
  device_->enter();
  const std::vector<engine::SegmentInput> none(table_->size());
  StepReport report = followed([&] { return engine_->step(none, {}); });
  report.gradient_norm = prepared.norm;
  report.skipped = prepared.skip;
  return finish_step(std::move(report));
}

}  // namespace kith::train

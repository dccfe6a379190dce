#include "kith/engine/engine.h"

#include <utility>

#include "kith/engine/engine_impl.h"

namespace kith::engine {

Engine::Engine(World world, EngineOptions options, std::vector<Segment> segments, kernels::Device& device)
    : impl_(std::make_unique<Impl>(std::move(world), std::move(options), std::move(segments), device)) {}
Engine::~Engine() = default;

const EngineOptions& Engine::options() const {
  return impl_->options();
}
const World& Engine::world() const {
  return impl_->world();
}
std::int64_t Engine::steps() const {
  return impl_->steps();
}
Layout Engine::layout() const {
  return impl_->layout();
}
std::size_t Engine::buckets() const {
  return impl_->buckets();
}
Cut Engine::cut() const {
  return impl_->cut();
}
std::vector<std::size_t> Engine::bucket(std::size_t b) const {
  return impl_->bucket(b).indices();
}
void* Engine::data(std::size_t segment) const {
  return impl_->bucket_of(segment).data(segment);
}
std::vector<void*> Engine::places(std::size_t segment) const {
  return impl_->bucket_of(segment).places(segment);
}

void Engine::start() {
  impl_->start();
}
void Engine::restore(std::int64_t step) {
  impl_->restore(step);
}
void Engine::resume() {
  impl_->resume();
}

StepReport Engine::step(std::span<const SegmentInput> inputs, const StepOptions& options) {
  return impl_->step(inputs, options);
}
void Engine::gradient_ready(std::size_t segment, const SegmentInput& input) {
  impl_->gradient_ready(segment, input);
}
double Engine::gradient_norm(std::span<const SegmentInput> inputs) {
  return impl_->gradient_norm(inputs);
}
std::vector<bool> Engine::mean_gradients(std::span<const SegmentInput> inputs, std::span<void* const> to) {
  return impl_->mean_gradients(inputs, to);
}

double Engine::average(std::span<void* const> to) {
  return impl_->average(to);
}
double Engine::consensus_distance() {
  return impl_->consensus_distance();
}
void Engine::average_inside(std::span<double> numbers) {
  impl_->average_inside(numbers);
}
std::vector<double> Engine::gather(double value) {
  return impl_->gather(value);
}

std::vector<StateSpan> Engine::state() {
  return impl_->state();
}
MemoryUse Engine::memory() const {
  return impl_->memory();
}

}  // namespace kith::engine

#include "kith/engine/engine.h"

#include <utility>

#include "kith/engine/view_follower.h"

namespace kith::engine {

Engine::Engine(WorldParts world, EngineOptions options, std::vector<Segment> segments,
               kernels::Device& device)
    : views_(std::make_unique<ViewFollower>(std::move(world), std::move(options), std::move(segments),
                                            device)) {}
Engine::~Engine() = default;

const EngineOptions& Engine::options() const {
  return views_->now().options();
}
const WorldParts& Engine::world() const {
  return views_->now().world();
}
std::int64_t Engine::steps() const {
  return views_->now().steps();
}
Layout Engine::layout() const {
  return views_->now().layout();
}
std::size_t Engine::buckets() const {
  return views_->now().buckets();
}
Cut Engine::cut() const {
  return views_->now().cut();
}
std::vector<std::size_t> Engine::bucket(std::size_t b) const {
  return views_->now().bucket(b).indices();
}
void* Engine::data(std::size_t segment) const {
  return views_->now().bucket_of(segment).data(segment);
}
std::vector<void*> Engine::places(std::size_t segment) const {
  return views_->now().bucket_of(segment).places(segment);
}

void Engine::start() {
  if (!views_->joined()) views_->now().start();
}
void Engine::restore(std::int64_t step) {
  views_->now().restore(step);
}
void Engine::resume() {
  views_->now().resume();
}

StepReport Engine::step(std::span<const SegmentInput> inputs, const StepOptions& options) {
  return views_->step(inputs, options);
}
void Engine::gradient_ready(std::size_t segment, const SegmentInput& input) {
  views_->now().gradient_ready(segment, input);
}
double Engine::gradient_norm(std::span<const SegmentInput> inputs) {
  return views_->gradient_norm(inputs);
}

void Engine::find_non_finite(std::span<const SegmentInput> inputs, float* found) {
  views_->find_non_finite(inputs, found);
}
std::vector<bool> Engine::mean_gradients(std::span<const SegmentInput> inputs, std::span<void* const> to) {
  return views_->mean_gradients(inputs, to);
}

double Engine::average(std::span<void* const> to) {
  return views_->average(to);
}
double Engine::consensus_distance() {
  return views_->consensus_distance();
}
void Engine::mean(std::span<double> numbers) {
  views_->mean(numbers);
}
void Engine::share(std::span<double> numbers) {
  views_->now().share(numbers);
}
void Engine::finish() {
  views_->finish();
}
const std::vector<WorkerId>& Engine::left() const {
  return views_->left();
}
const std::optional<Joined>& Engine::joined() const {
  return views_->joined();
}
void Engine::give_along(std::function<std::vector<std::byte>()> extra) {
  views_->give_along(std::move(extra));
}
std::int64_t Engine::view_began() const {
  return views_->began();
}
std::int64_t Engine::operations() const {
  return views_->operations();
}
bool Engine::average_inside(std::span<double> numbers) {
  return views_->average_inside(numbers);
}
std::vector<double> Engine::gather(double value) {
  return views_->gather(value);
}

std::vector<StateSpan> Engine::state() {
  return views_->now().state();
}
MemoryUse Engine::memory() const {
  return views_->now().memory();
}

}  // namespace kith::engine

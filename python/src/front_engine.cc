#include "python/src/front_engine.h"

#include <functional>
#include <map>
#include <span>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/gossip/machine_reducer.h"

namespace kith::python {
namespace {

void* at(Address address) {
  return reinterpret_cast<void*>(address);
}

std::vector<void*> at(const std::vector<Address>& addresses) {
  std::vector<void*> pointers;
  for (const Address address : addresses)
    pointers.push_back(at(address));
  return pointers;
}

engine::Segment segment_of(const Parameter& parameter) {
  const auto& [name, data, count, type, sizes, strides] = parameter;
  std::uint64_t digest = hash_words(sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d)
    digest = hash_words(digest, sizes[d], strides[d]);
  return {name, at(data), count, parse_dtype(type, cat("parameter ", name)), digest};
}

engine::EngineOptions staged(const train::Options& options, const engine::Cut& cut,
                             const engine::WorldParts& world) {
  engine::EngineOptions engine =
      train::engine_options(options, gossip::machines_of(*world.transport, world.members), *world.log);
  engine.layout = engine::Layout::staged;
  engine.cut = cut;
  return engine;
}

}  // namespace

FrontEngine::FrontEngine(std::shared_ptr<World> world, const train::Options& options, const engine::Cut& cut,
                         const std::vector<Parameter>& parameters, const Place& place)
    : world_(std::move(world)), call_([this] {
        if (joining_) world_->fail();
        world_->cancel();
      }) {
  for (const Parameter& parameter : parameters) {
    segments_.push_back(segment_of(parameter));
    names_.push_back({std::get<0>(parameter), {static_cast<std::int64_t>(segments_.back().count)}});
  }
  call_([&] {
    if (place.gpu) device_ = make_cuda_model_device(*place.gpu, place.stream);
    const engine::WorldParts seen = world_->engine(place.members);
    joining_ = seen.newcomer;
    kernels::Device& device = device_ ? device_->device() : kernels::host_device();
    engine_ = std::make_unique<engine::Engine>(seen, staged(options, cut, seen), segments_, device);
    joining_ = false;
  });
}

FrontEngine::~FrontEngine() = default;

engine::Engine& FrontEngine::engine() const {
  if (!engine_) throw Error("the model is closed", "kith", "wrap the module anew");
  return *engine_;
}

template <class Body>
auto FrontEngine::on_stream(Address stream, Body body) {
  engine();
  return call_([&] {
    if (device_) device_->enter(stream);
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      body();
      if (device_) device_->leave(stream);
    } else {
      auto result = body();
      if (device_) device_->leave(stream);
      return result;
    }
  });
}

void FrontEngine::start() {
  call_([&] { engine().start(); });
}

void FrontEngine::restore(std::int64_t step) {
  call_([&] { engine().restore(step); });
}

void FrontEngine::resume() {
  call_([&] { engine().resume(); });
}

std::vector<engine::SegmentInput> FrontEngine::inputs_of(const std::vector<Address>& gradients) const {
  std::vector<engine::SegmentInput> inputs(segments_.size());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    inputs.at(i) = {at(gradients[i]), segments_[i].type, 0, 0};
  return inputs;
}

engine::StepReport FrontEngine::step(const std::vector<Input>& inputs, const engine::StepOptions& options,
                                     Address stream) {
  if (std::exchange(overtaken_, false)) {
    engine::StepReport report;
    report.step = engine().steps() - 1;
    report.view = engine().world().members.view;
    return report;
  }
  std::vector<engine::SegmentInput> own(segments_.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& [gradient, lr, decay] = inputs[i];
    own.at(i) = {at(gradient), segments_[i].type, lr, decay};
  }
  engine::StepReport report = on_stream(stream, [&] { return engine().step(own, options); });
  for (const engine::PeerRead& read : report.read)
    heard_[read.peer] = read.steps;
  return report;
}

std::int64_t FrontEngine::heard(int worker) const {
  const auto found = heard_.find(WorkerId{worker});
  return found == heard_.end() ? 0 : found->second;
}

void FrontEngine::gradient_ready(std::size_t parameter, Address gradient, Address stream) {
  const engine::SegmentInput input{at(gradient), segments_.at(parameter).type, 0, 0};
  if (device_) device_->enter(stream);
  engine().gradient_ready(parameter, input);
}

std::vector<bool> FrontEngine::mean_gradients(const std::vector<Address>& gradients,
                                              const std::vector<Address>& to, Address stream) {
  const std::int64_t steps = engine().steps();
  try {
    return on_stream(stream, [&] { return engine().mean_gradients(inputs_of(gradients), at(to)); });
  } catch (const Error&) {
    if (engine().steps() == steps || engine().options().external_optimizer) throw;
    overtaken_ = true;
    return {};
  }
}

void FrontEngine::find_non_finite(const std::vector<Address>& gradients, Address found, Address stream) {
  on_stream(stream, [&] { engine().find_non_finite(inputs_of(gradients), static_cast<float*>(at(found))); });
}

void FrontEngine::average(const std::vector<Address>& to, Address stream) {
  on_stream(stream, [&] { engine().average(at(to)); });
}

double FrontEngine::consensus_distance(Address stream) {
  return on_stream(stream, [&] { return engine().consensus_distance(); });
}

std::vector<double> FrontEngine::gather(double value) {
  return call_([&] { return engine().gather(value); });
}

void FrontEngine::mean(Address numbers, std::size_t count) {
  call_([&] { engine().mean({reinterpret_cast<double*>(numbers), count}); });
}

void FrontEngine::share(Address numbers, std::size_t count) {
  call_([&] { engine().share({reinterpret_cast<double*>(numbers), count}); });
}

void FrontEngine::finish() {
  call_([&] { engine().finish(); });
}

void FrontEngine::give_along(std::function<std::string()> extra) {
  engine().give_along([extra = std::move(extra)] {
    const std::string given = extra();
    const auto bytes = std::as_bytes(std::span(given));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
}

std::optional<JoinedJob> FrontEngine::joined() const {
  const std::optional<engine::Joined>& joined = engine().joined();
  if (!joined) return {};
  const std::string extra(reinterpret_cast<const char*>(joined->extra.data()), joined->extra.size());
  return JoinedJob{joined->step, engine().world().members.view, extra};
}

// ---- state

std::vector<train::StateTensor> FrontEngine::state_tensors() {
  std::vector<engine::StateSpan> spans = engine().state();
  const std::size_t prefix = engine().options().name.size() + 1;
  for (engine::StateSpan& span : spans)
    span.name = span.name.substr(prefix);
  const auto plans = engine::plans_of(engine().cut(), segments_, engine::wire_block(engine().options()));
  return train::state_tensors({spans, plans, names_, &engine().options()});
}

std::vector<StateBlock> FrontEngine::state(Address stream) {
  std::vector<StateBlock> blocks;
  on_stream(stream, [&] {
    for (const train::StateTensor& tensor : state_tensors())
      blocks.emplace_back(tensor.name, tensor.type, tensor.bytes());
  });
  return blocks;
}

void FrontEngine::copy_state(const std::vector<StateCopy>& blocks,
                             const std::function<void(const train::StateTensor&, std::byte*)>& copy) {
  std::map<std::string, Address> places;
  for (const auto& [name, address] : blocks)
    places[name] = address;
  for (const train::StateTensor& tensor : state_tensors()) {
    if (const auto found = places.find(tensor.name); found != places.end())
      copy(tensor, static_cast<std::byte*>(at(found->second)));
  }
}

void FrontEngine::copy_state_to(const std::vector<StateCopy>& blocks, Address stream) {
  on_stream(stream, [&] {
    copy_state(blocks, [](const train::StateTensor& tensor, std::byte* place) {
      tensor.copy_to({place, tensor.bytes()});
    });
  });
}

void FrontEngine::copy_state_from(const std::vector<StateCopy>& blocks, Address stream) {
  on_stream(stream, [&] {
    copy_state(blocks, [](const train::StateTensor& tensor, std::byte* place) {
      tensor.copy_from({place, tensor.bytes()});
    });
  });
}

void FrontEngine::close() {
  engine_.reset();
}

}  // namespace kith::python

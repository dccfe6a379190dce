#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kith/engine/engine.h"
#include "kith/train/options.h"
#include "kith/train/parameter_state.h"
#include "python/src/caller.h"
#include "python/src/model_device.h"
#include "python/src/world.h"

namespace kith::python {

// An address, as Python has it.
using Address = std::uintptr_t;

// A parameter as its tensor describes it: name, data_ptr, count, element type ("fp32"), sizes, strides.
using Parameter = std::tuple<std::string, Address, std::size_t, std::string, std::vector<std::int64_t>,
                             std::vector<std::int64_t>>;

// What a parameter brings to a step: its gradient in the parameter's own type and layout (0: none), lr,
// decay.
using Input = std::tuple<Address, double, double>;

// A block of the state: name ("exp_avg.layers.0.weight", kith/train/parameter_state.h), type ("F32"), bytes.
using StateBlock = std::tuple<std::string, std::string, std::size_t>;
// Where a block goes to, or comes from, in host memory.
using StateCopy = std::tuple<std::string, Address>;

struct Place {
  std::optional<int> gpu;         // none: the CPU
  Address stream = 0;             // of the GPU; the engine's own
  std::vector<WorkerId> members;  // none: those of the world's start
};

// What a newcomer began with: steps of the donor when its state was copied, the number of the view that took
// it in, and what the donor gave along.
using JoinedJob = std::tuple<std::int64_t, std::uint32_t, std::string>;

// The engine behind a Python model: tensors come in as addresses. Staged layout, so parameters stay where
// they are. What waits is run by a Caller. REQUIRES for every call: the interpreter's lock.
class FrontEngine {
 public:
  FrontEngine(std::shared_ptr<World> world, const train::Options& options, const engine::Cut& cut,
              const std::vector<Parameter>& parameters, const Place& place);
  // A second at most.
  ~FrontEngine();

  void start();
  void restore(std::int64_t step);
  void resume();

  engine::StepReport step(const std::vector<Input>& inputs, const engine::StepOptions& options,
                          Address stream);
  // All-reduce: as the engine's functions of these names; `to` holds addresses. mean_gradients gives nothing
  // at all where the members changed and the others had made this step already: this worker then has their
  // state, and the next step() does nothing. Error where the optimizer, which the engine does not have, is
  // part of that state.
  void gradient_ready(std::size_t parameter, Address gradient, Address stream);
  std::vector<bool> mean_gradients(const std::vector<Address>& gradients, const std::vector<Address>& to,
                                   Address stream);
  void find_non_finite(const std::vector<Address>& gradients, Address found, Address stream);

  void average(const std::vector<Address>& to, Address stream);
  double consensus_distance(Address stream);
  std::vector<double> gather(double value);
  // Doubles in host memory.
  void mean(Address numbers, std::size_t count);
  void share(Address numbers, std::size_t count);

  // As the engine's functions of these names. `extra` is called in a step or an operation, by another thread
  // than the interpreter's own.
  void finish();
  void give_along(std::function<std::string()> extra);
  std::optional<JoinedJob> joined() const;
  const std::vector<WorkerId>& left() const { return engine().left(); }

  std::vector<StateBlock> state(Address stream);
  void copy_state_to(const std::vector<StateCopy>& blocks, Address stream);
  void copy_state_from(const std::vector<StateCopy>& blocks, Address stream);

  // No further calls.
  void close();

  std::int64_t steps() const { return engine().steps(); }
  const std::vector<WorkerId>& members() const { return engine().world().members.workers; }
  // The step at which the members became those that they are.
  std::int64_t view_began() const { return engine().view_began(); }
  // Steps of that worker whose gradients are in what was taken of it last; 0: nothing was.
  std::int64_t heard(int worker) const;
  std::size_t buckets() const { return engine().buckets(); }
  engine::Cut cut() const { return engine().cut(); }
  engine::MemoryUse memory() const { return engine().memory(); }

 private:
  engine::Engine& engine() const;
  // Runs the body between enter and leave of `stream`.
  template <class Body>
  auto on_stream(Address stream, Body body);
  std::vector<engine::SegmentInput> inputs_of(const std::vector<Address>& gradients) const;
  std::vector<train::StateTensor> state_tensors();
  void copy_state(const std::vector<StateCopy>& blocks,
                  const std::function<void(const train::StateTensor&, std::byte*)>& copy);

  const std::shared_ptr<World> world_;
  std::vector<engine::Segment> segments_;
  std::vector<train::NamedParameter> names_;
  std::unique_ptr<ModelDevice> device_;  // null: the CPU
  std::unique_ptr<engine::Engine> engine_;
  std::map<WorkerId, std::int64_t> heard_;
  std::atomic<bool> joining_ = false;
  bool overtaken_ = false;  // the step to come is done
  Caller call_;             // last: its thread uses everything else
};

}  // namespace kith::python

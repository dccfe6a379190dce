#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "kith/engine/engine.h"
#include "kith/launch/world.h"
#include "kith/train/model_device.h"
#include "kith/train/options.h"

namespace kith::train {

// A live group: lr and weight_decay are read at every step, so a scheduler is an assignment.
struct ParameterGroup {
  std::string name;
  std::vector<std::string> parameters;
  double lr = 0;
  double weight_decay = 0;
};

struct StepOptions {
  double gradient_scale = 1;  // multiplies every gradient before clipping: 1/loss scale, 1/micro-batches
};

// Its gradient_norm is there where clipping or NonFinite::skip asked for it.
using engine::StepReport;

// What a checkpoint held besides the model.
struct Resumed {
  std::int64_t step = 0;  // steps done
  // Of the data, as this worker's loop gave it to save_checkpoint; worker 0's where other workers go on.
  std::vector<std::byte> position;
  int workers = 1;                        // that saved it
  std::vector<std::byte> optimizer = {};  // of one that was attached, for attach(); else empty
};

// Trains any module on many workers without a global barrier, or with all-reduce: the same loop for every
// algorithm.
//
//   DecentralizedDataParallel model(module, world, options);
//   loop: model.zero_grad(); loss = f(net->forward(x), y); loss.backward(); model.step();
//
// Every worker wraps a module of the same structure, in the same order where there are several
// (options.name tells them apart). One thread calls a wrapper, the one that runs backward. The world
// outlives it, the module may outlive it.
//
// While wrapped, the parameters belong to the wrapper: between steps they may be changed only under edit(), a
// step throws InputError naming a parameter that was changed or moved otherwise. In the alternating layout a
// step moves the parameters to other memory: a graph retained over a step throws when used, and tensors got
// by detach() or data() before a step are stale after it (ask the module again). When the wrapper is
// destroyed the parameters lie in plain torch memory.
//
// All parameters of floating-point type take part: a frozen one (requires_grad false) or one without gradient
// is only mixed, and may be unfrozen or used at any time. Other parameters stay local.
class DecentralizedDataParallel {
 public:
  // Collective: opens the windows with all workers, then makes everybody's model rank 0's (or the
  // checkpoint's). The parameters lie on one device, the CPU or a GPU; on a GPU the stream that is torch's
  // current one now is also the engine's. InputError names the parameter that is not dense, not on that
  // device, or overlaps another; and a bad option. In a world that joins a running job (World::newcomer): see
  // joined().
  DecentralizedDataParallel(std::shared_ptr<torch::nn::Module> module, const launch::World& world,
                            Options options = {});
  DecentralizedDataParallel(std::shared_ptr<torch::nn::Module> module, const engine::WorldParts& world,
                            Options options = {});
  ~DecentralizedDataParallel();
  DecentralizedDataParallel(const DecentralizedDataParallel&) = delete;
  DecentralizedDataParallel& operator=(const DecentralizedDataParallel&) = delete;

  const std::shared_ptr<torch::nn::Module>& module() const;
  const Options& options() const;
  const engine::WorldParts& world() const;

  void train(bool on = true);
  void eval() { train(false); }

  // set_to_none false keeps the memory and leaves zeros: unused parameters then have a gradient (of zero).
  void zero_grad(bool set_to_none = true);

  // One step with the gradients that lie in the parameters. Bounded. What a lost worker means OnLost says;
  // a late one is in the report. On a GPU it does not wait for this step's backward pass, unless
  // NonFinite::skip or the algorithm (all but awc and none) must.
  StepReport step(const StepOptions& options = {});
  // The same by an optimizer of one's own, for a wrapper with Options::optimizer "external": it makes y_i of
  // the model x_i in place, from the gradients that lie in the parameters (averaged ones with all-reduce);
  // then, with awc, x_i becomes y_i + sum_j W[i,j] (x_j - x_i), while the neighbours' x_j have come during
  // the backward pass as ever. Its own groups and rates count, this wrapper's do not. InputError for LBFGS,
  // which asks for the loss again and again within a step.
  StepReport step(torch::optim::Optimizer& optimizer, const StepOptions& options = {});
  // The optimizer's state goes into checkpoints from now on. Where this wrapper goes on from one, the
  // optimizer takes the state that was saved; InputError when there is none. It outlives the wrapper.
  void attach(torch::optim::Optimizer& optimizer);

  // All-reduce: waits until the gradients of this step are averaged; they then hold the mean over all
  // workers, for clipping, logging or an optimizer of one's own, and step() takes them as they then are.
  // Collective, after the last backward of the step. The other algorithms use each worker's own gradients:
  // nothing happens.
  void sync_gradients();

  std::int64_t steps() const;  // done so far

  // The next step scales the gradients so that their norm over the whole model is at most max_norm (max /
  // (norm + 1e-6), as torch does). With all-reduce it is the norm of the averaged gradient. REQUIRES:
  // max_norm > 0.
  void clip_grad_norm(double max_norm);

  // Lets the Adam family step as far as all-reduce's would, at all-reduce's rate: Note [Rates for noisy
  // gradients] in noise_meter.h. Called between two backward passes of a step, when the gradients are those
  // of `share` of the step's samples (the loss of both passes divided as for accumulation), it measures how
  // much of each parameter's gradient is noise; from the next step on that parameter's rate is multiplied by
  // rate_factor(). Some steps are enough: `kith train` measures every eighth. What was measured goes into
  // checkpoints. Nothing is measured where there is nothing to mend: other optimizers, one worker,
  // all-reduce. The workers of a node that is one model (Options::inside) measure in the same steps, and take
  // the mean of their numbers. InputError unless 0 < share < 1.
  //
  //   { auto guard = model.no_sync(); loss(first_half).backward(); }
  //   model.measure_noise();
  //   loss(second_half).backward();
  //   model.step({.gradient_scale = 0.5});
  void measure_noise(double share = 0.5);
  // Whether measuring changes anything here.
  bool corrects_noise() const;
  // What the group's rate is multiplied by for this parameter; 1 before anything was measured. InputError for
  // a name that the module does not have.
  double rate_factor(const std::string& parameter);
  // The share of noise in the gradients of the whole model, from 0 to 1, by squares; 0 before the first
  // measurement.
  double noise_share();

  std::vector<ParameterGroup>& parameter_groups();
  void set_lr(double lr);  // in every group

  // Gradient accumulation: backward passes under the guard only add up. The last one before step() runs
  // outside it.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(DecentralizedDataParallel& model);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DecentralizedDataParallel& model_;
  };
  NoSync no_sync() { return NoSync(*this); }

  // Collective, after the same step on every worker: until the guard ends, the module holds the exact mean of
  // all workers' models (and of their buffers where the policy says so). Then everything is as before. No
  // step under the guard.
  class [[nodiscard]] Average {
   public:
    explicit Average(DecentralizedDataParallel& model);
    ~Average();
    Average(const Average&) = delete;
    Average& operator=(const Average&) = delete;

    // As the model's, when the guard began; costs nothing here.
    double consensus_distance() const { return consensus_distance_; }

   private:
    DecentralizedDataParallel& model_;
    const double consensus_distance_;
  };
  Average average() { return Average(*this); }

  // Collective, after the same step on every worker: under the guard the parameters may be written in place.
  // Returns when all workers are between steps, and lets them go on when all guards have ended.
  class [[nodiscard]] Edit {
   public:
    explicit Edit(DecentralizedDataParallel& model);
    ~Edit() noexcept(false);
    Edit(const Edit&) = delete;
    Edit& operator=(const Edit&) = delete;

   private:
    DecentralizedDataParallel& model_;
    int exceptions_;
  };
  Edit edit() { return Edit(*this); }

  // Collective, after the same step on every worker.
  double consensus_distance();
  std::vector<double> gather(double value);  // everybody's, in rank order
  void barrier();                            // Error names a worker that did not come

  torch::Device device() const;
  // The values of a tensor, for later: asking the tensor itself would wait for all that the device has to do.
  PendingValue read(const torch::Tensor& numbers);

  // What the checkpoint held, when options.resume_from named one; in a worker that joined a running job, what
  // it got of its donor.
  const std::optional<Resumed>& resumed() const;
  // This worker joined a running job: the constructor returned with a donor's model, moments, buffers and
  // rates, as a member, and steps() is that of the others. options.resume_from was not looked at.
  bool joined() const;
  // A worker that joins later gets the data's position of its donor, as Resumed::position: called between two
  // steps, by the thread that steps.
  void give_position(std::function<std::vector<std::byte>()> position);

  // This worker leaves a job that goes on, because its data is out or its machine is wanted. It mixes on
  // without gradients to where the view without it begins, and with sgp hands over its mass: nothing is lost,
  // and the others do not count it as lost. Nothing but the destructor may follow. With OnLost::reform; else
  // nothing happens, and the others miss it.
  void finish();

  // The engine below, for its memory use, buckets and layout.
  const engine::Engine& engine() const;

  // This worker's whole state as named tensors (see docs/checkpoint-format.md); valid until the next step.
  struct StateBlock {
    std::string name;
    std::string type;  // as kith/train/safetensors.h names it
    std::vector<std::int64_t> shape;
    std::vector<std::byte> owned;  // holds the bytes where the wrapper made them
    std::span<const std::byte> bytes;
  };
  std::vector<StateBlock> state();
  // Names the run in its checkpoints, through all its parts: 16 hexadecimal digits that rank 0 draws.
  // Collective.
  std::string run_id();
  // Names what the workers of this model agree on next through the Store: another number every time, the same
  // on all of them. Collective.
  std::uint64_t agreement_number();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kith::train

namespace kith {
using train::DecentralizedDataParallel;
}  // namespace kith
